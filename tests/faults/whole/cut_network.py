"""The network between processes of one machine, cut as a cable is: what is on its way is gone, and
nobody is told.

It needs a network namespace, so that nobody else's connections are meant, and Linux' `ip` and
`unshare`. In it the table of local routes gets a lower rank, and a rule before it drops what comes
from a port or goes to it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

_IN_IT = "RIG_HAS_OWN_NETWORK"
_LISTENS, _ESTABLISHED = "0A", "01"
_RANK, _LOCAL_RANK = "10", "100"


def enter_own_network(module: str) -> None:
    """Begins this program anew in a namespace, where that can be; and there, makes it ready."""
    if can_be_cut():
        _ip("link", "set", "lo", "up")
        _ip("rule", "add", "pref", _LOCAL_RANK, "lookup", "local")
        _ip("rule", "del", "pref", "0")
        return
    own = ["unshare", "--net"]
    if os.geteuid():  # whoever may do nothing else may have a network of its own
        own += ["--user", "--map-current-user", "--keep-caps"]
    if shutil.which("ip") and shutil.which("unshare"):
        tried = subprocess.run([*own, "ip", "link", "set", "lo", "up"], capture_output=True)
        if not tried.returncode:
            os.environ[_IN_IT] = "1"
            os.execvp(own[0], [*own, sys.executable, "-m", module, *sys.argv[1:]])


def can_be_cut() -> bool:
    return _IN_IT in os.environ


def cut(ports: Collection[int]) -> None:
    assert ports, "nobody is connected who could be cut off"
    for port in ports:
        for end in ("sport", "dport"):
            _ip("rule", "add", "pref", _RANK, "ipproto", "tcp", end, str(port), "unreachable")


def mend() -> None:
    if can_be_cut():
        while not _ip("rule", "del", "pref", _RANK, may_fail=True):
            pass


def open_to_others(pids: Collection[int]) -> set[int]:
    """The ports on which one of these processes listens, and to which another one is connected."""
    mine = {inode for pid in pids for inode in _sockets_of(pid)}
    rows = list(_connections())
    listens = {here for here, _, state, inode in rows if state == _LISTENS and inode in mine}
    others = (
        there for _, there, state, inode in rows if state == _ESTABLISHED and inode not in mine
    )
    return listens & set(others)


def _sockets_of(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                kind, _, inode = str(file.readlink()).partition(":[")
                if kind == "socket":
                    yield inode.rstrip("]")


def _connections() -> Iterator[tuple[int, int, str, str]]:
    """Port here, port there, state, inode."""
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, here, there, state, *_, inode = line.split()[:10]
            yield int(here.rpartition(":")[2], 16), int(there.rpartition(":")[2], 16), state, inode


def _ip(*words: str, may_fail: bool = False) -> int:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert may_fail or not done.returncode, f"ip {' '.join(words)}: {done.stderr}"
    return done.returncode
