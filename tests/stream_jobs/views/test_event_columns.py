"""What an event says does not depend on what came beside it: a block of events read at once is what
each of them is alone."""

import json
import random
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pydantic import BaseModel

from shared.model import EventType
from stream_jobs.views.event_columns import EventColumns


class Data(BaseModel):
    name: str
    count: int
    level: float
    open: bool


class Nested(BaseModel):
    name: str
    marks: list[int]


PLAIN = EventColumns(EventType("one", Data))
NESTED = EventColumns(EventType("one", Nested))
EVENT: dict[str, Any] = {
    "id": "e-1",
    "type": "one",
    "entity_id": "é",
    "time_ms": 5,
    "arrived_ms": 6,
    "origin": ["ingest.one.v1", 0, 1],
    "data": {"name": "x", "count": 7, "level": 1.5, "open": True},
}
ROW: dict[str, Any] = {
    "id": "e-1",
    "type": "one",
    "entity_id": "é",
    "time_ms": 5,
    "arrived_ms": 6,
    "revision": None,
    "shape": None,
    "has_data": True,
    "data_name": "x",
    "data_count": 7,
    "data_level": 1.5,
    "data_open": True,
}
NOTHING = dict.fromkeys(ROW) | {"has_data": False}
# as many as a block is read at once for
MANY = [orjson.dumps({**EVENT, "id": f"e-{number}"}) for number in range(100)]


def rows(columns: EventColumns, texts: list[bytes | None]) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_arrays(columns.of(texts), schema=columns.fields)
    batch.validate(full=True)
    return batch.to_pylist()


def changed(**data: Any) -> bytes:
    return json.dumps({**EVENT, "data": {**EVENT["data"], **data}}).encode()


def raw(field: str, value: bytes) -> bytes:
    its = {b"name": b'"x"', b"count": b"7", b"level": b"1.5", b"open": b"true"}
    its[field.encode()] = value
    data = b",".join(b'"%s":%s' % one for one in its.items())
    return orjson.dumps(EVENT).partition(b'"data"')[0] + b'"data":{' + data + b"}}"


ODD = [
    None,
    b"",
    b"  ",
    b"null",
    b"5",
    b"[]",
    b"{}",
    b"not even JSON",
    b'{"id":"a"}{"id":"b"}',
    b'{"id":"a"} null',
    b'{"id":"a","id":"b"}',
    b' {"id":"a"}',
    b'\xef\xbb\xbf{"id":"a"}',
    b'{"id":"a"',
    b'{"id":"a"}\x00',
    b'{"\\u0069d":"a"}',
    b'{"id":null,"data":null}',
    b'{"id":5,"time_ms":"5","data":[]}',
    b'{"other":NaN,"id":"a","data":{}}',
    b'{"other":-Infinity,"id":"a","data":{}}',
    b'{"other":"\xff","id":"a","data":{}}',
    b'{"other":"\\ud800","id":"a","data":{}}',
    b'{"other":1,"other":2,"id":"a","data":{"other":1,"other":2}}',
    b'{"id":"a","other":' + b"[" * 600 + b"]" * 600 + b"}",
    b'{"id":"a","other":' + b"[" * 3000 + b"]" * 3000 + b"}",
    b'{"id":"a","other":' + b'{"a":' * 3000 + b"1" + b"}" * 3000 + b"}",
    *(raw("count", one) for one in (b"-0", b"1.0", b"1e3", b'"7"', b"9223372036854775807")),
    *(raw("count", one) for one in (b"9223372036854775808", b"-9223372036854775808", b"01")),
    *(raw("level", one) for one in (b"5", b"-0", b"-0.0", b"NaN", b'"NaN"', b"1e400", b"1e-400")),
    *(raw("level", one) for one in (b"9007199254740993", b"12345678901234567890", b"1e300")),
    *(raw("name", one) for one in (b'"\xff"', b'"\\ud800"', b'"\\u0000"', b'"a\nb"', b"5", b"{}")),
    *(raw("open", one) for one in (b"1", b'"true"', b"null", b"false")),
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:60])
def test_an_odd_one_is_the_same_alone_and_among_many(odd: bytes | None) -> None:
    (alone,) = rows(PLAIN, [odd])
    among = rows(PLAIN, [*MANY[:50], odd, *MANY[50:]])
    first = rows(PLAIN, [odd, *MANY])
    assert str(among[50]) == str(alone)  # 0.0 is equal to -0.0
    assert among.pop(50) == alone
    assert first[0] == alone
    assert among == first[1:] == [{**ROW, "id": f"e-{number}"} for number in range(100)]
    # of many like it, each is that
    assert rows(PLAIN, [odd] * 60) == [alone] * 60


def test_one_that_is_none_and_one_that_is_two_are_not_two() -> None:
    two = b'{"id":"a"}{"id":"b"}'
    assert rows(PLAIN, [*MANY, b"  ", two])[-2:] == [NOTHING, NOTHING]
    assert rows(PLAIN, [*MANY, two, b"  "])[-2:] == [NOTHING, NOTHING]


def test_what_is_no_event_says_nothing() -> None:
    assert rows(PLAIN, [None, b"null", b"[1]", b'{"id":"a"'] * 30) == [NOTHING] * 120


def test_what_is_not_of_its_type_is_null_and_the_rest_is_there() -> None:
    (row,) = rows(PLAIN, [changed(count="7", level="1.5", open=1)])
    assert row == ROW | {"data_count": None, "data_level": None, "data_open": None}


def test_a_whole_number_is_a_number_however_large() -> None:
    for count in 1, 60:
        told = rows(PLAIN, [changed(level=its) for its in (5, 1 << 60, 10**25)] * count)
        assert [row["data_level"] for row in told[:3]] == [5.0, float(1 << 60), 1e25]


def test_what_is_nested_is_a_text_and_a_text_is_itself() -> None:
    for marks, told in ([1, 2], "[1,2]"), (5, "5"), ("x", "x"), (None, None):
        text = orjson.dumps({**EVENT, "data": {"name": "x", "marks": marks}})
        assert {row["data_marks"] for row in rows(NESTED, [text] * 60)} == {told}


def test_a_type_without_a_contract_has_no_columns_of_its_own() -> None:
    told = rows(EventColumns(EventType("one")), [*MANY])
    assert told[3] == {name: ROW[name] for name in told[3]} | {"id": "e-3"}
    assert "data_name" not in told[3]


def test_numbers_are_exact() -> None:
    dice = random.Random(3)
    levels = [dice.uniform(-1, 1) * 10.0 ** dice.randrange(-300, 15) for _ in range(3_000)]
    told = rows(PLAIN, [changed(level=level) for level in levels])
    assert [row["data_level"] for row in told] == levels


def _mangled(dice: random.Random, text: bytes) -> bytes:
    its = bytearray(text)
    for _ in range(dice.choice((1, 1, 2, 4))):
        at = dice.randrange(len(its))
        match dice.randrange(3):
            case 0:
                parts = (
                    b"{",
                    b"}",
                    b"[",
                    b'"',
                    b",",
                    b":",
                    b"null",
                    b"1",
                    b"-",
                    b"\\",
                    b"\n",
                    b"\x00",
                )
                its[at:at] = dice.choice(parts)
            case 1:
                del its[at : at + dice.randrange(1, 4)]
            case _:
                its[at] = dice.randrange(256)
    return bytes(its or b"x")


def test_mangled_ones_are_the_same_alone_and_among_many() -> None:
    dice = random.Random(7)
    at_once = 0
    for _ in range(1_500):
        odd = _mangled(dice, dice.choice(MANY))
        block = [*MANY[:20], odd, *MANY[20:45]]
        (alone,) = rows(PLAIN, [odd])
        told = rows(PLAIN, [*block])
        assert str(told.pop(20)) == str(alone), odd
        assert told == [{**ROW, "id": f"e-{number}"} for number in range(45)], odd
        at_once += PLAIN._of_block(block) is not None
    assert at_once > 100  # or all were read one by one


def test_most_are_read_at_once() -> None:
    assert PLAIN._of_block(MANY) is not None
    assert NESTED._of_block(MANY) is None
