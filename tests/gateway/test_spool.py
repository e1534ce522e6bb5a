"""What lies on the disk, and what is left of it after the worst."""

import errno
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway import spool as spool_module
from gateway.outcomes import Record
from gateway.spool import Spool
from gateway.spool_frame import Frame, bodies, pack, unpack

MIB = 1024 * 1024
OpenSpool = Callable[[Path, int], Spool]


@pytest.fixture
def open_spool() -> Iterator[OpenSpool]:
    opened: list[Spool] = []

    def open_it(folder: Path, bytes_max: int) -> Spool:
        opened.append(Spool(folder, bytes_max))
        return opened[-1]

    yield open_it
    for spool in opened:
        spool.close()


def _frame(number: int, size: int = 100) -> Frame:
    chance = random.Random(number)
    headers = [("ce_id", b"%d" % number), ("content-type", chance.randbytes(9))]
    record = Record(b"device-%d" % (number % 7), chance.randbytes(size), headers)
    return Frame("ingest.telemetry.v1", record, 1_000 + number)


def _drain(spool: Spool) -> list[Frame]:
    found: list[Frame] = []
    while not spool.is_empty():
        frames, end = spool.read()
        if frames:
            found += frames
            spool.drained(len(frames), end, frames[-1].spooled_ms)
    return found


@pytest.mark.parametrize("record", [Record(b"", b"", []), Record(b"k", b"\0" * 70_000, [])])
def test_a_frame_is_read_as_it_was_written(record: Record) -> None:
    frame = Frame("t", record, 7)
    assert [unpack(body) for body in bodies(pack(frame))] == [frame]


def test_what_was_appended_is_read_in_its_order(tmp_path: Path, open_spool: OpenSpool) -> None:
    spool = open_spool(tmp_path, MIB)
    frames = [_frame(number) for number in range(500)]
    assert spool.append(frames[:3]) == 3
    assert spool.append(frames[3:]) == 497
    assert not spool.is_empty()
    assert spool.state().records == 500
    assert _drain(spool) == frames
    assert spool.state()[:2] == (0, 0)


def test_it_survives_its_process(tmp_path: Path, open_spool: OpenSpool) -> None:
    frames = [_frame(number) for number in range(50)]
    first = open_spool(tmp_path, MIB)
    first.append(frames)
    read, end = first.read()
    assert read == frames
    half = sum(len(pack(frame)) for frame in frames[:20])
    first.drained(20, half, None)
    first.close()
    again = open_spool(tmp_path, MIB)
    assert again.state().records == 30
    assert _drain(again) == frames[20:]
    assert end == sum(len(pack(frame)) for frame in frames)


def test_after_a_loss_of_power_the_positions_may_be_gone(
    tmp_path: Path, open_spool: OpenSpool
) -> None:
    frames = [_frame(number) for number in range(50)]
    first = open_spool(tmp_path, MIB)
    first.append(frames)
    first.close()
    (tmp_path / "positions").unlink()
    assert _drain(open_spool(tmp_path, MIB)) == frames


@pytest.mark.parametrize("lost", [1, 5, 60, 119])
def test_a_torn_tail_is_cut_and_kept_aside(
    tmp_path: Path, lost: int, open_spool: OpenSpool
) -> None:
    frames = [_frame(number) for number in range(10)]
    first = open_spool(tmp_path, MIB)
    first.append(frames)
    first.close()
    (segment,) = tmp_path.glob("*.frames")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-lost])
    again = open_spool(tmp_path, MIB)
    assert again.state().records == 9
    (torn,) = (tmp_path / "set-aside").glob("torn-*")
    assert torn.read_bytes() == whole[len(whole) - len(pack(frames[9])) : -lost]
    more = [_frame(number) for number in range(10, 20)]
    again.append(more)
    assert _drain(again) == frames[:9] + more


def test_it_goes_on_in_new_files_and_removes_what_is_drained(
    tmp_path: Path, monkeypatch: Any, open_spool: OpenSpool
) -> None:
    monkeypatch.setattr(spool_module, "_SEGMENT_BYTES", 1000)
    spool = open_spool(tmp_path, MIB)
    frames = [_frame(number) for number in range(100)]
    for frame in frames:
        spool.append([frame])
    assert len(list(tmp_path.glob("*.frames"))) > 10
    again = open_spool(tmp_path, MIB)
    assert _drain(again) == frames
    assert list(tmp_path.glob("*.frames")) == []
    again.append(frames)
    assert _drain(again) == frames


def test_a_frame_larger_than_one_read_is_read(tmp_path: Path, open_spool: OpenSpool) -> None:
    spool = open_spool(tmp_path, 8 * MIB)
    frames = [_frame(0), _frame(1, 2 * MIB), _frame(2)]
    assert spool.append(frames) == 3
    assert _drain(spool) == frames


def test_when_it_is_full_it_takes_what_fits_and_drops_nothing(
    tmp_path: Path, open_spool: OpenSpool
) -> None:
    frames = [_frame(number) for number in range(10)]
    spool = open_spool(tmp_path, sum(len(pack(frame)) for frame in frames[:4]) + 10)
    assert spool.append(frames) == 4
    assert spool.append(frames[4:]) == 0
    assert _drain(spool) == frames[:4]
    assert spool.append(frames[4:]) == 4


def test_a_full_disk_leaves_no_half_of_a_frame(
    tmp_path: Path, monkeypatch: Any, open_spool: OpenSpool
) -> None:
    spool = open_spool(tmp_path, MIB)
    frames = [_frame(number) for number in range(10)]
    spool.append(frames[:3])
    pwrite, room = os.pwrite, 150

    def write_to_a_full_disk(descriptor: int, raw: Any, offset: int) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken, room = min(room, len(raw)), room - min(room, len(raw))
        return pwrite(descriptor, raw[:taken], offset)

    monkeypatch.setattr(os, "pwrite", write_to_a_full_disk)
    assert spool.append(frames[3:]) == 0
    monkeypatch.setattr(os, "pwrite", pwrite)
    assert spool.append(frames[5:]) == 5
    spool.close()
    assert _drain(open_spool(tmp_path, MIB)) == frames[:3] + frames[5:]


def test_what_the_disk_did_not_keep_is_not_told_as_kept(
    tmp_path: Path, monkeypatch: Any, open_spool: OpenSpool
) -> None:
    spool = open_spool(tmp_path, MIB)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    spool.append([_frame(0)])
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        spool.append([_frame(1)])
    monkeypatch.setattr(os, "fsync", fsync)
    spool.append([_frame(2)])
    assert len(list(tmp_path.glob("*.frames"))) == 2  # never again into the file that failed
    assert _drain(spool) == [_frame(0), _frame(1), _frame(2)]


def test_a_damaged_part_is_set_aside_and_the_rest_is_drained(
    tmp_path: Path, monkeypatch: Any, caplog: pytest.LogCaptureFixture, open_spool: OpenSpool
) -> None:
    monkeypatch.setattr(spool_module, "_SEGMENT_BYTES", 1000)
    spool = open_spool(tmp_path, MIB)
    frames = [_frame(number) for number in range(30)]
    for frame in frames:
        spool.append([frame])
    segment = sorted(tmp_path.glob("*.frames"))[1]
    raw = bytearray(segment.read_bytes())
    begin = next(n for n in range(30) if pack(frames[n]) == bytes(raw[: len(pack(frames[n]))]))
    at = len(pack(frames[begin])) + 50
    raw[at] ^= 1
    segment.write_bytes(raw)
    assert _drain(spool) == frames[: begin + 1] + frames[begin + 2 :]
    (aside,) = (tmp_path / "set-aside").glob("damaged-*")
    start = len(pack(frames[begin]))
    assert aside.read_bytes() == raw[start : start + len(pack(frames[begin + 1]))]
    assert spool.state().set_aside_bytes == len(aside.read_bytes())
    assert "cannot be drained" in caplog.text


def test_two_processes_of_a_node_share_it(tmp_path: Path, open_spool: OpenSpool) -> None:
    one, other = open_spool(tmp_path, MIB), open_spool(tmp_path, MIB)
    frames = [_frame(number) for number in range(40)]
    for number, frame in enumerate(frames):
        (one if number % 2 else other).append([frame])
    assert not one.is_empty()
    assert not other.is_empty()
    assert one.may_drain()
    assert one.may_drain()  # keeps to it
    assert not other.may_drain()
    assert _drain(one) == frames
    assert other.is_empty()
    one.close()
    assert other.may_drain()


def test_one_that_comes_later_cuts_nothing_of_what_another_is_writing(
    tmp_path: Path, open_spool: OpenSpool
) -> None:
    one = open_spool(tmp_path, MIB)
    one.append([_frame(0)])
    (segment,) = tmp_path.glob("*.frames")
    with segment.open("ab") as half_written:
        half_written.write(pack(_frame(1))[:40])
    open_spool(tmp_path, MIB)
    assert segment.stat().st_size == len(pack(_frame(0))) + 40
    one.append([_frame(2)])
    assert _drain(one) == [_frame(0), _frame(2)]


def test_the_closed_gate_opens_by_itself(
    tmp_path: Path, monkeypatch: Any, open_spool: OpenSpool
) -> None:
    monkeypatch.setattr(spool_module, "_CLOSED_S", 0.0)
    spool = open_spool(tmp_path, MIB)
    spool.append([_frame(0)])
    spool.close_gate()
    assert not spool.gate_is_closed()
    monkeypatch.setattr(spool_module, "_CLOSED_S", 60.0)
    spool.close_gate()
    assert spool.gate_is_closed()
    _drain(spool)
    assert not spool.gate_is_closed()


@pytest.mark.parametrize("in_the_frame", [0, 2, 5, 9, 60])
def test_one_flipped_byte_costs_one_frame_also_after_a_restart(
    tmp_path: Path, in_the_frame: int, open_spool: OpenSpool
) -> None:
    frames = [_frame(number) for number in range(100)]
    first = open_spool(tmp_path, MIB)
    first.append(frames)
    first.close()
    (segment,) = tmp_path.glob("*.frames")
    raw = bytearray(segment.read_bytes())
    raw[sum(len(pack(frame)) for frame in frames[:10]) + in_the_frame] ^= 0x10
    segment.write_bytes(raw)
    again = open_spool(tmp_path, MIB)
    assert again.state().records == 99
    assert _drain(again) == frames[:10] + frames[11:]
    assert again.state().set_aside_bytes == len(pack(frames[10]))
    again.close()
    assert open_spool(tmp_path, MIB).state().set_aside_bytes == len(pack(frames[10]))


def test_what_looks_like_a_frame_within_a_damaged_payload_is_none(
    tmp_path: Path, open_spool: OpenSpool
) -> None:
    forged = pack(Frame("ingest.telemetry.v1", Record(b"victim", b"forged", []), 7))
    frames = [_frame(0), Frame("ingest.telemetry.v1", Record(b"d", forged, []), 8), _frame(2)]
    first = open_spool(tmp_path, MIB)
    first.append(frames)
    first.close()
    (segment,) = tmp_path.glob("*.frames")
    raw = bytearray(segment.read_bytes())
    raw[len(pack(frames[0])) + 12] ^= 1
    segment.write_bytes(raw)
    assert _drain(open_spool(tmp_path, MIB)) == [frames[0], frames[2]]
