from collections import Counter

from gateway.kafka_writer.partition_of_key import partition_of
from gateway.state_view.holders import ranked
from gateway.state_view.parts import is_divided, part_of, topic_of

GATEWAYS = [f"http://10.0.0.{number}:8000" for number in range(1, 6)]
PARTS = [part_of("state.device.v1", number) for number in range(1_000)]


def test_all_hold_about_as_much_and_whoever_asks_says_the_same() -> None:
    first = Counter(ranked(GATEWAYS, part)[0] for part in PARTS)
    assert first.keys() == {*GATEWAYS}
    assert max(first.values()) < 1.3 * min(first.values())
    for part in PARTS:
        assert ranked(reversed(GATEWAYS), part) == ranked(GATEWAYS, part)


def test_a_gateway_that_goes_moves_its_own_parts_and_no_others() -> None:
    gone = GATEWAYS[2]
    for part in PARTS:
        left = [url for url in ranked(GATEWAYS, part) if url != gone]
        assert ranked([url for url in GATEWAYS if url != gone], part) == left


def test_a_part_is_told_from_a_whole_topic() -> None:
    part = part_of("state.device.v1", 3)
    assert (topic_of(part), is_divided(part)) == ("state.device.v1", True)
    assert (topic_of("state.device.v1"), is_divided("state.device.v1")) == (
        "state.device.v1",
        False,
    )
    # where Kafka's own producers write this key, of four partitions
    assert partition_of(b"device-0001", 4) == 3
