"""Several gateways on this machine, each a node of its own, and the balancer before them.

The first has the name, and in the state folder the place, that an only one has: so from one to
several and back nothing of it changes, its spool least of all.
"""

import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gateway.spool.positions import Positions

FIRST, BALANCER = "gateway", "balancer"
_PEER_TOKEN = "peers.token"  # as shared/settings/peers.py looks for it
_FURTHER = re.compile(rf"{FIRST}-[1-9][0-9]*")


class LeftBehind(NamedTuple):
    """Payloads that were accepted by a gateway which is not started."""

    gateway: str
    payloads: int


def names_of(count: int) -> list[str]:
    return [FIRST, *(f"{FIRST}-{number}" for number in range(2, count + 1))]


def is_gateway(name: str) -> bool:
    return name == FIRST or _FURTHER.fullmatch(name) is not None


def node_folder(state_dir: Path, name: str) -> Path:
    """Its spool, its view and whatever else no other node may share."""
    return state_dir if name == FIRST else state_dir / name


def node_folders(state_dir: Path) -> dict[str, Path]:
    """The folder of every gateway that was ever started on it."""
    further = sorted(path.name for path in state_dir.glob(f"{FIRST}-*") if is_gateway(path.name))
    return {name: node_folder(state_dir, name) for name in (FIRST, *further)}


def peers_environment(state_dir: Path, given: Mapping[str, str]) -> dict[str, str]:
    """What gateways among which states are divided know each other by: a token that programs beside
    the stack find, too."""
    found = {}
    if not {"HEADRACE_PEER_TOKEN", "HEADRACE_PEER_TOKEN_FILE"} & given.keys():
        file = state_dir / _PEER_TOKEN
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(secrets.token_urlsafe() + "\n")
        found["HEADRACE_PEER_TOKEN_FILE"] = str(file)
    return found


def left_behind(state_dir: Path, started: int) -> Iterator[LeftBehind]:
    """Nobody else may bring them to Kafka: the spool is their gateway's."""
    for name, folder in node_folders(state_dir).items():
        if name not in names_of(started) and (payloads := _spooled(folder / "spool")):
            yield LeftBehind(name, payloads)


def _spooled(spool: Path) -> int:
    payloads = 0
    for path in spool.glob("topics/*/positions"):
        positions = Positions(path)
        payloads += positions.records
        positions.close()
    return payloads
