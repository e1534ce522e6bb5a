"""A record as it lies in the spool: length and checksum, then all that goes to Kafka. Pure."""

import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from gateway.kafka_writer.outcome import Record
from shared.events.envelope import RECEIVED, TIME, find
from shared.timestamps import from_rfc3339

_HEAD = struct.Struct(">II")  # length and CRC-32 of what follows
_FIXED = struct.Struct(">qHHIH")  # when, then the sizes of topic, key and value, then headers
_HEADER = struct.Struct(">HI")


class Frame(NamedTuple):
    topic: str
    record: Record
    spooled_ms: int


def pack(frame: Frame) -> bytes:
    topic, record, spooled_ms = frame
    name = topic.encode()
    sizes = len(name), len(record.key), len(record.value), len(record.headers)
    parts = [_FIXED.pack(spooled_ms, *sizes), name, record.key, record.value]
    for header, value in record.headers:
        parts += (_HEADER.pack(len(header), len(value)), header.encode(), value)
    body = b"".join(parts)
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def bodies(raw: bytes) -> Iterator[bytes]:
    """The bodies of as many whole, sound frames as there are; it ends before the first that is
    not."""
    at = 0
    while at + _HEAD.size <= len(raw):
        length, checksum = _HEAD.unpack_from(raw, at)
        start, at = at + _HEAD.size, at + _HEAD.size + length
        body = raw[start:at]
        if length < _FIXED.size or len(body) < length or zlib.crc32(body) != checksum:
            return
        yield body


def next_frame(raw: bytes) -> int:
    """Where the next whole, sound frame begins behind a damaged one; the end where there is none.
    Most often its body is what is hurt, and nothing within it may pass for a frame of its own: so
    what it says of its length is tried before the search. Or its length is hurt, and its body says
    how long it is: a length that is wrong may by chance lead to the frame after the next."""
    if size := _size_by_its_body(raw):
        return size
    said = first_size_bytes(raw)
    if said and (said == len(raw) or _is_frame(raw, said)):
        return said
    for at in range(1, len(raw) - _HEAD.size - _FIXED.size + 1):
        if _is_frame(raw, at):
            return at
    return len(raw)


def _size_by_its_body(raw: bytes) -> int:
    """0 where the checksum does not confirm it."""
    start, at = _HEAD.size, _HEAD.size + _FIXED.size
    if at > len(raw):
        return 0
    _, topic, key, value, headers = _FIXED.unpack_from(raw, start)
    at += topic + key + value
    for _ in range(headers):
        if at + _HEADER.size > len(raw):
            return 0
        at += _HEADER.size + sum(_HEADER.unpack_from(raw, at))
    _, checksum = _HEAD.unpack_from(raw)
    whole = at <= len(raw) and zlib.crc32(memoryview(raw)[start:at]) == int(checksum)
    return at if whole else 0


def _is_frame(raw: bytes, at: int) -> bool:
    start = at + _HEAD.size
    if start + _FIXED.size > len(raw):
        return False
    length, checksum = _HEAD.unpack_from(raw, at)
    _, topic, key, value, headers = _FIXED.unpack_from(raw, start)
    least = _FIXED.size + topic + key + value + headers * _HEADER.size
    if length < least or start + length > len(raw):
        return False  # asked first: a checksum at each byte would take minutes
    return zlib.crc32(memoryview(raw)[start : start + length]) == int(checksum)


def size_bytes(body: bytes) -> int:
    return _HEAD.size + len(body)


def first_size_bytes(raw: bytes) -> int:
    """How long the frame that begins here says it is."""
    return _HEAD.size + int(_HEAD.unpack_from(raw)[0]) if len(raw) >= _HEAD.size else 0


def read_frames(path: Path) -> Iterator[Frame]:
    """One at a time, from the first to the last before one that is not whole and sound."""
    with path.open("rb") as file:
        while head := file.read(_HEAD.size):
            rest = first_size_bytes(head) - _HEAD.size
            raw = head + (file.read(rest) if rest > 0 else b"")
            whole = [unpack(body) for body in bodies(raw)]
            if not whole:
                return
            yield from whole


def count_frames(path: Path) -> tuple[int, bool]:
    """How many frames there are by what each says of its length, and whether that comes out even;
    one that cannot be right counts as the last."""
    count, at, end = 0, 0, path.stat().st_size
    with path.open("rb") as file:
        while at < end:
            file.seek(at)
            size_bytes = first_size_bytes(file.read(_HEAD.size))
            count += 1
            if size_bytes < _HEAD.size + _FIXED.size:
                return count, False
            at += size_bytes
    return count, at == end


def brought(frame: Frame) -> Record:
    """As it goes to Kafka: late, so it says when it was received."""
    key, value, headers = frame.record
    return Record(key, value, [*headers, (RECEIVED, b"%d" % _received_ms(frame))])


def _received_ms(frame: Frame) -> int:
    try:
        return from_rfc3339((find(frame.record.headers, TIME) or b"").decode())
    except (ValueError, OverflowError):
        return frame.spooled_ms


def unpack(body: bytes) -> Frame:
    rest = BytesIO(body)
    spooled_ms, topic, key, value, headers = _FIXED.unpack(rest.read(_FIXED.size))
    name = rest.read(topic).decode()
    record = Record(rest.read(key), rest.read(value), [_header(rest) for _ in range(headers)])
    return Frame(name, record, spooled_ms)


def _header(rest: BytesIO) -> tuple[str, bytes]:
    name, value = _HEADER.unpack(rest.read(_HEADER.size))
    return rest.read(name).decode(), rest.read(value)
