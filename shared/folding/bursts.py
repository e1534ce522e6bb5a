"""Ids that came together, of which more are remembered than of single ones: a batch comes again
whole, and so does what a spool brings."""

from collections.abc import Mapping, Sequence

# a digest of an id: 9 bytes of hash. At 64 ids a ring, one false match in 10^20 events
DIGEST_BYTES = 9
DIGEST_CHARS = 12
_IDS_MAX = 4096  # of an entity: two of the largest batches
_SEARCHES_MAX = 32  # of so many strings, before a set of all is made

# moments of its type since it came, digests
Burst = tuple[int, str]


def holds(digests: str, digest: str) -> bool:
    found = digests.find(digest)
    while found >= 0:
        if found % DIGEST_CHARS == 0:
            return True
        found = digests.find(digest, found + 1)
    return False


def split(digests: str) -> list[str]:
    return [digests[at : at + DIGEST_CHARS] for at in range(0, len(digests), DIGEST_CHARS)]


class Bursts:
    def __init__(self, told: Mapping[str, Sequence[Burst]] | None = None) -> None:
        self._closed: dict[str, list[Burst]] = {
            kind: [(moments, digests) for moments, digests in bursts]
            for kind, bursts in (told or {}).items()
        }
        self._kind = ""
        self._open: list[str] = []  # the burst that grows
        self._searches = 0
        self._all: set[str] | None = None

    def holds(self, digest: str) -> bool:
        if self._all is None:
            self._searches += 1
            if self._searches <= _SEARCHES_MAX:
                return digest in self._open or any(holds(one, digest) for one in self._strings())
            self._all = {*self._open, *(one for text in self._strings() for one in split(text))}
        return digest in self._all

    def begin(self, kind: str, digests: str) -> None:
        self._close()
        self._kind = kind
        for digest in split(digests):
            self.add(digest)

    def add(self, digest: str) -> None:
        self._open.append(digest)
        if self._all is not None:
            self._all.add(digest)

    def age(self, kind: str, moments_max: int) -> None:
        """More of this type has come since."""
        self._close()
        older = [(moments + 1, digests) for moments, digests in self._closed.get(kind, ())]
        if younger := [burst for burst in older if burst[0] < moments_max]:
            self._closed[kind] = younger
        else:
            self._closed.pop(kind, None)

    def told(self) -> Mapping[str, Sequence[Burst]]:
        """The bursts by event type, oldest first."""
        self._close()
        return self._closed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bursts) and self.told() == other.told()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def _strings(self) -> list[str]:
        return [digests for bursts in self._closed.values() for _, digests in bursts]

    def _close(self) -> None:
        if not self._open:
            return
        self._closed.setdefault(self._kind, []).append((0, "".join(self._open)))
        self._open = []
        over = sum(map(_ids, self._closed.values())) - _IDS_MAX
        while over > 0:
            largest = max(self._closed.values(), key=_ids)
            moments, digests = largest.pop(0)
            over -= len(digests) // DIGEST_CHARS
            if over < 0:
                largest.insert(0, (moments, digests[DIGEST_CHARS * over :]))


def _ids(bursts: Sequence[Burst]) -> int:
    return sum(len(digests) for _, digests in bursts) // DIGEST_CHARS
