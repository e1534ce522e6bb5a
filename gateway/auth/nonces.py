"""Which signed requests have been here already: at any process of this node, also before a restart.

A request that comes to another node, or whose place in the table another one has taken since, is
written again under the same event id, so it still has one effect.
"""

import logging
import mmap
import os
from hashlib import blake2b
from pathlib import Path
from struct import Struct

log = logging.getLogger(__name__)

_FILE = "nonces"
_SETS = 1 << 18  # of four places; of 200,000 nonces two in a thousand are forgotten early
_SET = Struct("=8q")  # four digests, the newest first, and until when each counts


class Nonces:
    """A table of fixed size. A nonce counts until its request is too old to be taken: then the time
    in it refuses a replay. There is no lock: of two processes that write into a set in the same
    microsecond, one may be forgotten."""

    def __init__(self, memory_fd: int = -1) -> None:
        self._table = mmap.mmap(memory_fd, _SETS * _SET.size)

    @classmethod
    def kept_in(cls, folder: Path) -> "Nonces":
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # a page that a full disk has no room for would end the process
                os.posix_fallocate(file, 0, _SETS * _SET.size)
                return cls(file)
            finally:
                os.close(file)
        except OSError as error:
            log.warning("nonces are known to this process alone, until it ends: %s", error)
            return cls()

    def is_first(self, key_id: bytes, nonce: bytes, until_ms: int, now_ms: int) -> bool:
        digest = blake2b(key_id + nonce, digest_size=8).digest()  # a key's id has one length
        known = int.from_bytes(digest, "little", signed=True)
        at = (known & _SETS - 1) * _SET.size
        a, b, c, d, a_ms, b_ms, c_ms, d_ms = _SET.unpack_from(self._table, at)
        if known in (a, b, c, d):
            here = (a, b, c, d).index(known)
            if (a_ms, b_ms, c_ms, d_ms)[here] >= now_ms:
                return False
        _SET.pack_into(self._table, at, known, a, b, c, until_ms, a_ms, b_ms, c_ms)
        return True
