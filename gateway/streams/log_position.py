"""How far a reader has come in each partition of some topics, and the id that says so. Pure.

The id holds places of the log and nothing of a node, so every gateway can go on from it. It is
opaque to readers: base64url of a format byte, whether it is of all topics, their names' checksums
and numbers of partitions, the offsets as varints, and a checksum, since a place that is wrong would
be a gap that nobody sees.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

from clients.kafka.records import Partition

ID_CHARS_MAX = 16_384
_FORMAT = 1
_OFFSET_END, _SHIFT_MAX = 1 << 63, 63


class BadPosition(Exception):  # noqa: N818 - it is what was sent
    """In one sentence for who sent it."""


class LogPosition:
    """The next offset of each place; a place is the number of a partition in the layout."""

    __slots__ = ("offsets", "packed")

    def __init__(self, offsets: Iterable[int]) -> None:
        self.offsets = [*offsets]
        self.packed = [_varint(offset) for offset in self.offsets]

    def advance(self, place: int, offset: int) -> None:
        self.offsets[place] = offset
        self.packed[place] = _varint(offset)

    def copy(self) -> "LogPosition":
        other = LogPosition(())
        other.offsets, other.packed = [*self.offsets], [*self.packed]
        return other


class Layout:
    """The partitions of the event topics, each with its place."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        """`partitions`: of each topic, how many."""
        self.places_of: dict[str, range] = {}
        self.partitions: list[Partition] = []
        for topic, count in partitions.items():
            begin = len(self.partitions)
            self.places_of[topic] = range(begin, begin + count)
            self.partitions += [(topic, number) for number in range(count)]
        self.place_of = {at: place for place, at in enumerate(self.partitions)}


class Given(NamedTuple):
    """What an id says."""

    is_of_all: bool
    offsets: dict[int, list[int]]  # by the checksum of a topic's name


class Scope:
    """The topics that a stream reads, and its ids."""

    def __init__(self, layout: Layout, topics: Iterable[str] | None) -> None:
        """None: all of them, and those that the flow may have one day."""
        self.is_of_all = topics is None
        names = [*layout.places_of] if topics is None else sorted(topics)
        self._places_of = {crc32(name.encode()): layout.places_of[name] for name in names}
        self.places = tuple(place for its in self._places_of.values() for place in its)
        head = [bytes((_FORMAT, self.is_of_all)), _varint(len(names))]
        for name_sum, its in self._places_of.items():
            head += [name_sum.to_bytes(4), _varint(len(its))]
        self._head = b"".join(head)

    def id_of(self, position: LogPosition) -> bytes:
        packed = position.packed
        raw = self._head + b"".join([packed[place] for place in self.places])
        return urlsafe_b64encode(raw + crc32(raw).to_bytes(4)).rstrip(b"=")

    def offsets_of(self, given: Given) -> dict[int, int]:
        """Where to read on, by place. Places that it does not name were made later: they are read
        from their begins. BadPosition where the id is not of a stream like this one."""
        of_others = given.offsets.keys() ^ self._places_of.keys()
        if given.is_of_all != self.is_of_all or (of_others and not self.is_of_all):
            raise BadPosition(
                "this id is of a stream that has another `type`, and says nothing of these: go on "
                "with the types that it had, or leave the id out"
            )
        found: dict[int, int] = {}
        for name_sum, offsets in given.offsets.items():
            its = self._places_of.get(name_sum, range(0))
            if its and len(offsets) > len(its):
                raise BadPosition("this id names more partitions than there are: is it of here?")
            found.update(zip(its, offsets, strict=False))
        return found


def read_id(text: str) -> Given:
    """BadPosition where it is none, or not what was written."""
    try:
        raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        if len(text) > ID_CHARS_MAX or crc32(raw[:-4]).to_bytes(4) != raw[-4:]:
            raise ValueError(text[:40])
        return _read(raw[:-4])
    except (ValueError, IndexError):
        raise BadPosition(
            "this is no id of an event stream as it was sent: copy the last `id:` whole, or leave "
            "it out"
        ) from None


def _read(raw: bytes) -> Given:
    if raw[0] != _FORMAT:
        raise ValueError(raw[0])
    topics, at = _number(raw, 2)
    counts: dict[int, int] = {}
    for _ in range(topics):
        name_sum = int.from_bytes(raw[at : at + 4])
        counts[name_sum], at = _number(raw, at + 4)
    found: dict[int, list[int]] = {}
    for name_sum, count in counts.items():
        found[name_sum] = []
        for _ in range(count):
            offset, at = _number(raw, at)
            found[name_sum].append(offset)
    if at != len(raw):
        raise ValueError(at)
    return Given(bool(raw[1]), found)


def _number(raw: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = raw[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > _SHIFT_MAX:
            raise ValueError(shift)
    if number >= _OFFSET_END:
        raise ValueError(number)
    return number, at


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def is_behind(offsets: Sequence[int], other: Sequence[int], places: Iterable[int]) -> bool:
    """Anywhere."""
    return any(offsets[place] < other[place] for place in places)
