"""No lock goes below the version that has a fault of a dependency cured.

What an older one does: docs/decisions and the comments say how the others are designed around.
"""

import re
from pathlib import Path

import pytest

from local_stack.machine.paths import CHECKOUT

_NAMES = ("gateway.txt", "jobs.txt", "desk.txt", "local.txt")
LOCKS = [CHECKOUT / "requirements" / name for name in _NAMES]

FLOORS = {
    "uvicorn": ("0.54.0", "what gateway/server/connection.py knows of its inside"),
    "h11": ("0.16.0", "CVE-2025-43859: smuggling in chunks"),
    "starlette": ("1.10.0", "CVE-2026-48710: the Host header moves the path"),
    "aiokafka": ("0.14.0", "what gateway/lane, producer_keeper and kafka_facts know of its inside"),
    "orjson": ("3.11.6", "CVE-2025-67221: deep JSON ends the process"),
    "pyspark": ("4.2.0", "state stores and checkpoints that are damaged stop the query"),
}
JARS = {
    "kafka-clients": ("3.9.2", "CVE-2026-35554: a record lands on another topic, as a success"),
}


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_no_locked_package_is_below_its_floor(lock: Path) -> None:
    locked = dict(re.findall(r"^([a-z0-9-]+)==([^ \\\n]+)", lock.read_text(), re.MULTILINE))
    known = locked.keys() & FLOORS.keys()
    assert known
    for name in known:
        floor, why = FLOORS[name]
        assert _version(locked[name]) >= _version(floor), f"{name} {locked[name]}: {why}"


def test_every_floor_is_that_of_a_locked_package() -> None:
    locked = "\n".join(lock.read_text() for lock in LOCKS)
    assert all(re.search(rf"^{name}==", locked, re.MULTILINE) for name in FLOORS)


@pytest.mark.parametrize("name", JARS)
def test_no_sealed_jar_is_below_its_floor(name: str) -> None:
    floor, why = JARS[name]
    sealed = (CHECKOUT / "jars" / "sha256.txt").read_text()
    found = re.findall(rf"\b{re.escape(name)}-(\d+\.\d+\.\d+)\.jar", sealed)
    assert found
    for version in found:
        assert _version(version) >= _version(floor), f"{name} {version}: {why}"
