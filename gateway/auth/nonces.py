"""Which signed requests have been here already: at any process of this node, also before a restart.

A request that comes to another node, or whose place in the table another one has taken since, is
written again under the same event id, so it still has one effect.
"""

import logging
import os
from hashlib import blake2b
from pathlib import Path

from gateway.rate_limits import Buckets

log = logging.getLogger(__name__)

_FILE = "nonces"
_SETS = 1 << 18  # of four places; of 200,000 nonces three in a thousand are forgotten early


class Nonces:
    """The table is the one of the rate limits: a key, and until when it counts. A nonce counts
    until its request is too old to be taken: then the time in it refuses a replay."""

    def __init__(self, memory_fd: int = -1) -> None:
        self._table = Buckets(memory_fd, _SETS)

    @classmethod
    def kept_in(cls, folder: Path) -> "Nonces":
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # a page that a full disk has no room for would end the process
                os.posix_fallocate(file, 0, Buckets.bytes_needed(_SETS))
                return cls(file)
            finally:
                os.close(file)
        except OSError as error:
            log.warning("nonces are known to this process alone, until it ends: %s", error)
            return cls()

    def is_first(self, key_id: bytes, nonce: bytes, until_s: float, now_s: float) -> bool:
        digest = blake2b(key_id + nonce, digest_size=8).digest()  # a key's id has one length
        place = self._table.place(int.from_bytes(digest, "little", signed=True))
        if self._table.paid_until_s[place] >= now_s:
            return False
        self._table.paid_until_s[place] = until_s
        return True
