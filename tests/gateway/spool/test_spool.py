"""What lies on the disk, and what is left of it after the worst."""

import errno
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.kafka_writer.outcome import Record
from gateway.spool import set_aside as set_aside_module
from gateway.spool import spool_log as spool_module
from gateway.spool.frame import Frame, bodies, pack, unpack
from gateway.spool.positions import Positions
from gateway.spool.spool import Spool

TOPIC, OTHER = "ingest.telemetry.v1", "ingest.status.v1"
MIB = 1024 * 1024
SIZE = 36  # a frame of 128 bytes: a flipped bit in its length may lead to the next but one
OpenSpool = Callable[[Path, int], Spool]


@pytest.fixture
def open_spool() -> Iterator[OpenSpool]:
    opened: list[Spool] = []

    def open_it(folder: Path, bytes_max: int) -> Spool:
        opened.append(Spool(folder, bytes_max, [TOPIC, OTHER]))
        return opened[-1]

    yield open_it
    for spool in opened:
        spool.close()


def _frame(number: int, size: int = 100) -> Frame:
    chance = random.Random(number)
    headers = [("ce_id", b"%d" % number), ("content-type", chance.randbytes(9))]
    record = Record(b"device-%d" % (number % 7), chance.randbytes(size), headers)
    return Frame(TOPIC, record, 1_000 + number)


def _drain(spool: Spool) -> list[Frame]:
    return _drain_of(spool, TOPIC)


def _drain_of(spool: Spool, topic: str) -> list[Frame]:
    found: list[Frame] = []
    log = spool.of(topic)
    while not log.is_empty():
        frames, end = log.read()
        found += frames
        if frames:
            log.drained(len(frames), end, frames[-1].spooled_ms)
    return found


@pytest.mark.parametrize("record", [Record(b"", b"", []), Record(b"k", b"\0" * 70_000, [])])
def test_a_frame_is_read_as_it_was_written(record: Record) -> None:
    frame = Frame("t", record, 7)
    assert [unpack(body) for body in bodies(pack(frame))] == [frame]


def test_what_was_appended_is_read_in_its_order(tmp_path: Path, open_spool: OpenSpool) -> None:
    spool = open_spool(tmp_path, MIB)
    frames = [_frame(number) for number in range(500)]
    assert spool.of(TOPIC).append(frames[:3]) == 3
    assert spool.of(TOPIC).append(frames[3:]) == 497
    assert not spool.is_empty()
    assert spool.state().records == 500
    assert _drain(spool) == frames
    assert spool.state()[:2] == (0, 0)


def test_it_survives_its_process(tmp_path: Path, open_spool: OpenSpool) -> None:
    frames = [_frame(number) for number in range(50)]
    first = open_spool(tmp_path, MIB)
    first.of(TOPIC).append(frames)
    read, end = first.of(TOPIC).read()
    assert read == frames
    half = sum(len(pack(frame)) for frame in frames[:20])
    first.of(TOPIC).drained(20, half, None)
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
    first.of(TOPIC).append(frames)
    first.close()
    (tmp_path / "topics" / TOPIC / "positions").unlink()
    assert _drain(open_spool(tmp_path, MIB)) == frames


@pytest.mark.parametrize("lost", [1, 5, 60, 119])
def test_a_torn_tail_is_cut_and_kept_aside(
    tmp_path: Path, lost: int, open_spool: OpenSpool
) -> None:
    frames = [_frame(number) for number in range(10)]
    first = open_spool(tmp_path, MIB)
    first.of(TOPIC).append(frames)
    first.close()
    (segment,) = tmp_path.glob("topics/*/*.frames")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-lost])
    again = open_spool(tmp_path, MIB)
    assert again.state().records == 9
    (torn,) = (tmp_path / "set-aside").glob("torn-*")
    assert torn.read_bytes() == whole[len(whole) - len(pack(frames[9])) : -lost]
    more = [_frame(number) for number in range(10, 20)]
    again.of(TOPIC).append(more)
    assert _drain(again) == frames[:9] + more


def test_it_goes_on_in_new_files_and_removes_what_is_drained(
    tmp_path: Path, monkeypatch: Any, open_spool: OpenSpool
) -> None:
    monkeypatch.setattr(spool_module, "_SEGMENT_BYTES", 1000)
    spool = open_spool(tmp_path, MIB)
    frames = [_frame(number) for number in range(100)]
    for frame in frames:
        spool.of(TOPIC).append([frame])
    assert len(list(tmp_path.glob("topics/*/*.frames"))) > 10
    again = open_spool(tmp_path, MIB)
    assert _drain(again) == frames
    assert list(tmp_path.glob("topics/*/*.frames")) == []
    again.of(TOPIC).append(frames)
    assert _drain(again) == frames


def test_a_frame_larger_than_one_read_is_read(tmp_path: Path, open_spool: OpenSpool) -> None:
    spool = open_spool(tmp_path, 8 * MIB)
    frames = [_frame(0), _frame(1, 2 * MIB), _frame(2)]
    assert spool.of(TOPIC).append(frames) == 3
    assert _drain(spool) == frames


def test_when_it_is_full_it_takes_what_fits_and_drops_nothing(
    tmp_path: Path, open_spool: OpenSpool
) -> None:
    frames = [_frame(number) for number in range(10)]
    spool = open_spool(tmp_path, sum(len(pack(frame)) for frame in frames[:4]) + 10)
    assert spool.of(TOPIC).append(frames) == 4
    assert spool.of(TOPIC).append(frames[4:]) == 0
    assert _drain(spool) == frames[:4]
    assert spool.of(TOPIC).append(frames[4:]) == 4


def test_a_full_disk_leaves_no_half_of_a_frame(
    tmp_path: Path, monkeypatch: Any, open_spool: OpenSpool
) -> None:
    spool = open_spool(tmp_path, MIB)
    frames = [_frame(number) for number in range(10)]
    spool.of(TOPIC).append(frames[:3])
    pwrite, room = os.pwrite, 150

    def write_to_a_full_disk(descriptor: int, raw: Any, offset: int) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken, room = min(room, len(raw)), room - min(room, len(raw))
        return pwrite(descriptor, raw[:taken], offset)

    monkeypatch.setattr(os, "pwrite", write_to_a_full_disk)
    assert spool.of(TOPIC).append(frames[3:]) == 0
    monkeypatch.setattr(os, "pwrite", pwrite)
    assert spool.of(TOPIC).append(frames[5:]) == 5
    spool.close()
    assert _drain(open_spool(tmp_path, MIB)) == frames[:3] + frames[5:]


def test_what_the_disk_did_not_keep_is_not_told_as_kept(
    tmp_path: Path, monkeypatch: Any, open_spool: OpenSpool
) -> None:
    spool = open_spool(tmp_path, MIB)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    spool.of(TOPIC).append([_frame(0)])
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        spool.of(TOPIC).append([_frame(1)])
    monkeypatch.setattr(os, "fsync", fsync)
    spool.of(TOPIC).append([_frame(2)])
    assert (
        len(list(tmp_path.glob("topics/*/*.frames"))) == 2
    )  # never again into the file that failed
    assert _drain(spool) == [_frame(0), _frame(1), _frame(2)]


def test_a_damaged_part_is_set_aside_and_the_rest_is_drained(
    tmp_path: Path, monkeypatch: Any, caplog: pytest.LogCaptureFixture, open_spool: OpenSpool
) -> None:
    monkeypatch.setattr(spool_module, "_SEGMENT_BYTES", 1000)
    spool = open_spool(tmp_path, MIB)
    frames = [_frame(number) for number in range(30)]
    for frame in frames:
        spool.of(TOPIC).append([frame])
    segment = sorted(tmp_path.glob("topics/*/*.frames"))[1]
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
    assert "are damaged" in caplog.text


def test_two_processes_of_a_node_share_it(tmp_path: Path, open_spool: OpenSpool) -> None:
    one, other = open_spool(tmp_path, MIB), open_spool(tmp_path, MIB)
    frames = [_frame(number) for number in range(40)]
    for number, frame in enumerate(frames):
        (one if number % 2 else other).of(TOPIC).append([frame])
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
    one.of(TOPIC).append([_frame(0)])
    (segment,) = tmp_path.glob("topics/*/*.frames")
    with segment.open("ab") as half_written:
        half_written.write(pack(_frame(1))[:40])
    open_spool(tmp_path, MIB)
    assert segment.stat().st_size == len(pack(_frame(0))) + 40
    one.of(TOPIC).append([_frame(2)])
    assert _drain(one) == [_frame(0), _frame(2)]


def test_the_closed_gate_opens_by_itself(
    tmp_path: Path, monkeypatch: Any, open_spool: OpenSpool
) -> None:
    monkeypatch.setattr(spool_module, "_CLOSED_S", 0.0)
    spool = open_spool(tmp_path, MIB)
    spool.of(TOPIC).append([_frame(0)])
    spool.of(TOPIC).close_gate()
    assert not spool.of(TOPIC).gate_is_closed()
    monkeypatch.setattr(spool_module, "_CLOSED_S", 60.0)
    spool.of(TOPIC).close_gate()
    assert spool.of(TOPIC).gate_is_closed()
    _drain(spool)
    assert not spool.of(TOPIC).gate_is_closed()


@pytest.mark.parametrize("in_the_frame", [0, 2, 5, 9, 60])
def test_one_flipped_byte_costs_one_frame_also_after_a_restart(
    tmp_path: Path, in_the_frame: int, open_spool: OpenSpool
) -> None:
    frames = [_frame(number) for number in range(100)]
    first = open_spool(tmp_path, MIB)
    first.of(TOPIC).append(frames)
    first.close()
    (segment,) = tmp_path.glob("topics/*/*.frames")
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
    forged = pack(Frame(TOPIC, Record(b"victim", b"forged", []), 7))
    frames = [_frame(0), Frame(TOPIC, Record(b"d", forged, []), 8), _frame(2)]
    first = open_spool(tmp_path, MIB)
    first.of(TOPIC).append(frames)
    first.close()
    (segment,) = tmp_path.glob("topics/*/*.frames")
    raw = bytearray(segment.read_bytes())
    raw[len(pack(frames[0])) + 12] ^= 1
    segment.write_bytes(raw)
    assert _drain(open_spool(tmp_path, MIB)) == [frames[0], frames[2]]


def _segment(folder: Path) -> Path:
    (segment,) = folder.glob("topics/*/*.frames")
    return segment


def _written(folder: Path, frames: list[Frame], open_spool: OpenSpool) -> Path:
    """The one file of a spool that was written and left."""
    spool = open_spool(folder, MIB)
    assert spool.of(TOPIC).append(frames) == len(frames)
    spool.close()
    return _segment(folder)


@pytest.mark.slow
@pytest.mark.parametrize("bit", [0, 3, 7])
def test_whatever_bit_flips_at_most_its_frame_is_lost_and_the_operator_hears_of_it(
    tmp_path: Path, bit: int, monkeypatch: Any, open_spool: OpenSpool
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # of thousands of small ones
    frames = [_frame(number, size=SIZE) for number in range(4)]
    whole = b"".join(map(pack, frames))
    for at in range(len(whole)):
        folder = tmp_path / str(at)
        segment = _written(folder, frames, open_spool)
        raw = bytearray(whole)
        raw[at] ^= 1 << bit
        segment.write_bytes(raw)
        again = open_spool(folder, MIB)
        found = _drain(again)
        assert [frame for frame in frames if frame in found] == found
        assert len(found) == 3, f"byte {at}"
        assert again.state().set_aside_payloads == 1
        again.close()
        once_more = open_spool(folder, MIB)
        assert once_more.state().set_aside_payloads == 1
        once_more.close()


@pytest.mark.parametrize("zeros", [1, 30, 200, 5000])
def test_zeros_at_the_end_are_set_aside_and_cost_nothing_that_is_whole(
    tmp_path: Path, zeros: int, open_spool: OpenSpool
) -> None:
    frames = [_frame(number) for number in range(10)]
    segment = _written(tmp_path, frames, open_spool)
    with segment.open("ab") as file:
        file.write(bytes(zeros))
    again = open_spool(tmp_path, MIB)
    assert again.state()[:2] == (10, sum(len(pack(frame)) for frame in frames))
    assert again.state().set_aside_payloads == 1
    more = [_frame(number) for number in range(10, 20)]
    again.of(TOPIC).append(more)
    assert _drain(again) == frames + more


@pytest.mark.parametrize("lost", range(1, 11))
def test_an_end_that_was_told_safe_and_is_gone_is_told(
    tmp_path: Path, lost: int, open_spool: OpenSpool
) -> None:
    frames = [_frame(number) for number in range(10)]
    segment = _written(tmp_path, frames, open_spool)
    os.truncate(segment, sum(len(pack(frame)) for frame in frames[:-lost]))
    again = open_spool(tmp_path, MIB)
    assert again.state().set_aside_payloads == 1  # at least
    again.of(TOPIC).append([_frame(99)])
    assert _drain(again) == [*frames[:-lost], _frame(99)]


@pytest.mark.parametrize("gone", [0, 1, 4, -1])
def test_a_file_that_is_gone_is_told_and_the_others_are_drained(
    tmp_path: Path, gone: int, monkeypatch: Any, open_spool: OpenSpool
) -> None:
    monkeypatch.setattr(spool_module, "_SEGMENT_BYTES", 1)
    spool = open_spool(tmp_path, MIB)
    frames = [_frame(number) for number in range(6)]
    for frame in frames:
        spool.of(TOPIC).append([frame])
    spool.close()
    sorted(tmp_path.glob("topics/*/*.frames"))[gone].unlink()
    again = open_spool(tmp_path, MIB)
    del frames[gone]
    assert _drain(again) == frames
    (missing,) = (tmp_path / "set-aside").iterdir()
    assert f"of the spool of {TOPIC} are missing" in missing.read_text()
    assert again.state().set_aside_payloads == 1


@pytest.mark.parametrize("bit", [0, 7, 12, 40, 62])
@pytest.mark.parametrize("field", range(10))
def test_no_damage_to_the_positions_loses_a_frame(
    tmp_path: Path, field: int, bit: int, open_spool: OpenSpool
) -> None:
    frames = [_frame(number) for number in range(30)]
    spool = open_spool(tmp_path, MIB)
    spool.of(TOPIC).append(frames)
    half = sum(len(pack(frame)) for frame in frames[:15])
    spool.of(TOPIC).drained(15, half, None)
    spool.close()
    positions = tmp_path / "topics" / TOPIC / "positions"
    raw = bytearray(positions.read_bytes())
    raw[field * 8 + bit // 8] ^= 1 << bit % 8
    positions.write_bytes(raw)
    again = open_spool(tmp_path, MIB)
    assert again.of(TOPIC).append([_frame(99)]) == 1
    assert _drain(again)[-16:] == [*frames[15:], _frame(99)]
    again.of(TOPIC).append([_frame(100)])
    assert _drain(again) == [_frame(100)]


@pytest.mark.parametrize("what", ["older", "zeroed", "gone", "short"])
def test_after_a_loss_of_power_the_positions_may_be_older(
    tmp_path: Path, what: str, open_spool: OpenSpool
) -> None:
    frames = [_frame(number) for number in range(50)]
    spool = open_spool(tmp_path, MIB)
    positions = tmp_path / "topics" / TOPIC / "positions"
    older = {"zeroed": bytes(80), "short": b"\0"}.get(what, positions.read_bytes())
    spool.of(TOPIC).append(frames)
    spool.of(TOPIC).drained(10, sum(len(pack(frame)) for frame in frames[:10]), None)
    spool.close()
    positions.write_bytes(older)
    if what == "gone":
        positions.unlink()
    again = open_spool(tmp_path, MIB)
    assert again.state().records == 50
    assert _drain(again) == frames  # what was in Kafka comes again, under the same ids
    assert again.state().set_aside_payloads == 0


def test_before_a_file_goes_the_disk_knows_that_it_was_drained(
    tmp_path: Path, monkeypatch: Any, open_spool: OpenSpool
) -> None:
    """Or older positions would make it look lost."""
    did: list[str] = []
    monkeypatch.setattr(spool_module, "_SEGMENT_BYTES", 1)
    spool = open_spool(tmp_path, MIB)
    for number in range(3):
        spool.of(TOPIC).append([_frame(number)])
    monkeypatch.setattr(Positions, "flush", lambda _: did.append("flush"))
    unlink = Path.unlink

    def note(path: Path) -> None:
        did.append("unlink")
        unlink(path)

    monkeypatch.setattr(Path, "unlink", note)
    _drain(spool)
    assert did == ["flush", "unlink"] * 3


def test_each_topic_has_its_own_place_and_all_share_the_room(
    tmp_path: Path, open_spool: OpenSpool
) -> None:
    frame = _frame(0)
    other = frame._replace(topic=OTHER)
    spool = open_spool(tmp_path, len(pack(frame)) + len(pack(other)) + 5)
    assert spool.of(OTHER).append([other]) == 1
    assert not spool.is_empty()
    assert spool.of(TOPIC).is_empty()
    assert spool.of(TOPIC).append([frame, frame]) == 1
    assert spool.of(OTHER).append([other]) == 0
    assert spool.state().records == 2
    assert _drain_of(spool, TOPIC) == [frame]
    assert not spool.is_empty()
    assert spool.of(OTHER).append([other]) == 1
    assert _drain_of(spool, OTHER) == [other, other]
    assert spool.is_empty()


def test_what_is_left_of_an_endpoint_that_is_no_more_is_still_there(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MIB, ["ingest.gone.v1"])
    spool.of("ingest.gone.v1").append([_frame(0)])
    spool.close()
    spool = Spool(tmp_path, MIB, [TOPIC])
    assert [log.topic for log in spool.logs if not log.is_empty()] == ["ingest.gone.v1"]
    spool.close()


def test_the_log_that_all_topics_had_in_common_is_taken_apart(
    tmp_path: Path, open_spool: OpenSpool
) -> None:
    topics = [TOPIC, OTHER, "ingest.gone.v1"]
    frames = [_frame(number)._replace(topic=topics[number % 3]) for number in range(30)]
    tmp_path.joinpath(f"{0:020}.frames").write_bytes(b"".join(map(pack, frames)))
    tmp_path.joinpath("positions").write_bytes(bytes(56))
    aside = tmp_path / "set-aside"
    aside.mkdir()
    aside.joinpath("refused.frames").write_bytes(pack(frames[0]) + pack(frames[1]))
    aside.joinpath("torn-120").write_bytes(b"torn")
    spool = open_spool(tmp_path, 1)  # what is there already has room
    for topic in topics:
        assert _drain_of(spool, topic) == [frame for frame in frames if frame.topic == topic]
    assert list(tmp_path.glob("*.frames")) == []
    assert spool.state().set_aside_payloads == 3


def test_what_is_set_aside_twice_is_kept_once_and_what_goes_is_counted_no_more(
    tmp_path: Path, monkeypatch: Any, open_spool: OpenSpool
) -> None:
    monkeypatch.setattr(set_aside_module, "_SETTLED_NS", 10**18)  # it looks each time
    one, other = open_spool(tmp_path, MIB), open_spool(tmp_path, MIB)
    assert one.state().set_aside_payloads == 0
    for spool in (one, other):
        spool.of(TOPIC).set_aside(_frame(0), "record_too_large")
    one.of(TOPIC).set_aside(_frame(1), "record_too_large")
    files = list((tmp_path / "set-aside").iterdir())
    assert len(files) == 2
    size_bytes = len(pack(_frame(0))) + len(pack(_frame(1)))
    for spool in (one, other):
        state = spool.state()
        assert (state.set_aside_payloads, state.set_aside_bytes) == (2, size_bytes)
    files[0].unlink()
    assert {spool.state().set_aside_payloads for spool in (one, other)} == {1}


def test_half_of_a_file_that_was_to_be_set_aside_is_no_file(
    tmp_path: Path, monkeypatch: Any, open_spool: OpenSpool
) -> None:
    spool = open_spool(tmp_path, MIB)
    spool.of(TOPIC).append([_frame(0)])

    def die(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(set_aside_module.os, "fsync", die)
    with pytest.raises(OSError, match="Input/output"):
        spool.of(TOPIC).set_aside(_frame(0), "record_too_large")
    monkeypatch.undo()
    assert spool.state().set_aside_payloads == 0
    spool.close()
    again = open_spool(tmp_path, MIB)
    assert list((tmp_path / "set-aside").iterdir()) == []
    assert _drain(again) == [_frame(0)]


def test_two_frames_that_the_disk_has_zeroed_are_two(tmp_path: Path, open_spool: OpenSpool) -> None:
    frames = [_frame(number, size=SIZE) for number in range(5)]
    segment = _written(tmp_path, frames, open_spool)
    raw = bytearray(segment.read_bytes())
    size_bytes = len(pack(frames[0]))
    for lost in (1, 3):
        raw[lost * size_bytes : (lost + 1) * size_bytes] = bytes(size_bytes)
    segment.write_bytes(raw)
    spool = open_spool(tmp_path, MIB)
    assert _drain(spool) == frames[::2]
    assert spool.state().set_aside_payloads == 2


def test_a_folder_that_was_cleared_up_thoroughly_is_made_again(
    tmp_path: Path, open_spool: OpenSpool
) -> None:
    spool = open_spool(tmp_path, MIB)
    (tmp_path / "set-aside").rmdir()
    assert spool.state().set_aside_payloads == 0
    spool.of(TOPIC).set_aside(_frame(0), "record_too_large")
    assert spool.state().set_aside_payloads == 1


def test_whichever_process_is_asked_knows_what_is_stuck(
    tmp_path: Path, open_spool: OpenSpool
) -> None:
    drains, asked = open_spool(tmp_path, MIB), open_spool(tmp_path, MIB)
    drains.of(TOPIC).append([_frame(0)])
    assert drains.of(TOPIC).note_stuck("topic_missing")
    assert not drains.of(TOPIC).note_stuck("topic_missing")  # is no news
    assert [stuck[:2] for stuck in asked.state().stuck] == [(TOPIC, "topic_missing")]
    drains.of(TOPIC).note_progress()
    assert asked.state().stuck == ()
