import orjson

from shared import ledger
from shared.envelope import Position


def test_repeats_are_told_as_offsets_by_partition() -> None:
    places = [Position("ingest.a.v1", 1, 7), Position("ingest.a.v1", 0, 3)]
    told = ledger.repeats_value([*places, Position("ingest.a.v1", 1, 9)])
    assert orjson.loads(told) == {"ingest.a.v1/1": [7, 9], "ingest.a.v1/0": [3]}
