"""Where things live. Standard library only: the bootstrap runs before any package is there."""

import os
from collections.abc import Mapping
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def cache_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Downloads, shared by all checkouts of a user; in the checkout if there is no usable home."""
    if chosen := env.get("HEADRACE_CACHE_DIR"):
        return Path(chosen).absolute()
    home = env.get("HOME")
    base = env.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    if base and _writable(cache := Path(base).absolute() / "headrace"):
        return cache
    return CHECKOUT / ".headrace" / "cache"


def state_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Topics, database, checkpoints and logs: what survives a restart."""
    chosen = env.get("HEADRACE_STATE_DIR")
    return Path(chosen).absolute() if chosen else CHECKOUT / ".headrace" / "state"


def python_path(env: Mapping[str, str] = os.environ) -> str:
    """The checkout in front of what the user set: a domain of one's own may live elsewhere."""
    own = [part for part in env.get("PYTHONPATH", "").split(os.pathsep) if part]
    return os.pathsep.join([str(CHECKOUT), *(part for part in own if part != str(CHECKOUT))])


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
