from gateway.state.event_tail import Tail, TailRecord
from shared.events.envelope import Position

TOPIC = "event.reading.v1"


def record(offset: int, partition: int = 0) -> TailRecord:
    return TailRecord(Position(TOPIC, partition, offset), b"%d" % offset, offset)


def test_it_has_what_came_of_a_key_until_that_is_done_with() -> None:
    tail = Tail()
    for offset in range(6):
        tail.put(b"even" if offset % 2 == 0 else b"odd", record(offset))
    tail.put(b"even", record(3, partition=1))
    assert tail.of(b"even") == [record(0), record(2), record(4), record(3, partition=1)]
    assert tail.of(b"nobody") == []

    tail.forget_before({(TOPIC, 0): 3, (TOPIC, 7): 100})
    assert tail.of(b"even") == [record(4), record(3, partition=1)]
    assert tail.of(b"odd") == [record(3), record(5)]
    tail.forget_before({(TOPIC, 0): 1})  # what is forgotten does not come back
    assert tail.of(b"odd") == [record(3), record(5)]


def test_it_knows_its_size_and_is_empty_when_all_is_done_with() -> None:
    tail = Tail()
    assert tail.bytes == 0
    tail.put(b"d", record(1))
    first = tail.bytes
    tail.put(b"d", record(2))
    size = tail.bytes - first
    assert first > size > len(b"d") + len(b"2")
    tail.put(b"e", record(2, partition=1))
    assert tail.bytes == 2 * first + size
    tail.forget_before({(TOPIC, 1): 3})
    assert tail.bytes == first + size
    tail.forget_before({(TOPIC, 0): 3})
    assert (tail.bytes, tail.of(b"d")) == (0, [])
    tail.put(b"d", record(4))
    tail.clear()
    assert (tail.bytes, tail.of(b"d")) == (0, [])
