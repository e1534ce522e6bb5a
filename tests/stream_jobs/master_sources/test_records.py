import json
from typing import Any

import pytest

from shared.model import Table
from stream_jobs.master_sources.records import Told, UnreadableError, told_by

PRICE = Table("price", key="article")
TIMED = Table("price", key="article", valid_from="from_ms")
ROW = {"article": "cola", "cents": 150}
KEY = {"article": "cola"}


def written(document: Any) -> bytes:
    return json.dumps(document).encode()


def wrapped(payload: Any) -> dict[str, Any]:
    return {"schema": {"type": "struct"}, "payload": payload}


def envelope(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "ts_ms": 1, "source": {"table": "price"}}


def debezium(key: Any, value: Any) -> Told | None:
    return told_by(
        PRICE,
        None if key is None else written(key),
        None if value is None else written(value),
        debezium=True,
    )


def plain(key: bytes | None, value: Any) -> Told | None:
    return told_by(PRICE, key, None if value is None else written(value), debezium=False)


@pytest.mark.parametrize("op", ["c", "u", "r"])
def test_an_envelope_tells_the_row_as_it_is_now(op: str) -> None:
    for key, value in (
        (KEY, envelope(op, after=ROW)),
        (wrapped(KEY), wrapped(envelope(op, {"article": "cola"}, ROW))),
        (None, envelope(op, after=ROW)),
    ):
        assert debezium(key, value) == ("cola", ROW)


def test_a_deletion_is_told_by_an_envelope_and_by_its_tombstone() -> None:
    assert debezium(KEY, envelope("d", before=ROW)) == ("cola", None)
    assert debezium(KEY, None) == ("cola", None)
    assert debezium(wrapped(KEY), wrapped(None)) == ("cola", None)


def test_where_the_record_is_keyed_by_another_column_the_row_before_tells_its_key() -> None:
    assert debezium({"id": 7}, envelope("d", before={"id": 7, **ROW})) == ("cola", None)
    assert debezium({"id": 7}, None) is None  # the envelope before it has told
    with pytest.raises(UnreadableError, match="neither the record's key nor `before`"):
        debezium({"id": 7}, envelope("d", before={"id": 7}))


def test_a_key_may_be_a_number() -> None:
    assert debezium({"article": 7}, None) == ("7", None)
    assert plain(b"7", {"article": 7}) == ("7", {"article": 7})


def test_a_message_of_the_log_is_no_row() -> None:
    assert debezium(None, envelope("m")) is None


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (envelope("c"), "no `after`"),
        (envelope("t"), "truncated"),
        (envelope("x", after=ROW), "op is 'x'"),
        (ROW, "op is None"),
        ([1], "a JSON object, not list"),
        (
            envelope("u", after={**ROW, "text": "__debezium_unavailable_value"}),
            "text: Debezium did not get the value",
        ),
    ],
)
def test_what_is_no_envelope_is_refused_with_its_key(value: Any, says: str) -> None:
    with pytest.raises(UnreadableError, match=says):
        debezium(KEY, value)


def test_a_row_of_a_compacted_topic_is_keyed_by_a_text_or_an_object() -> None:
    for key in (b"cola", b'"cola"', b'{"article": "cola"}', written(wrapped(KEY))):
        assert plain(key, ROW) == ("cola", ROW)
        assert plain(key, None) == ("cola", None)


def test_a_row_without_its_envelope_may_say_that_it_is_gone() -> None:
    assert plain(None, {**ROW, "__deleted": "true"}) == ("cola", None)
    assert plain(None, {**ROW, "__deleted": "false"}) == (None, {**ROW, "__deleted": "false"})


def timed(key: Any, value: Any, *, debezium: bool) -> Told | None:
    raw = None if value is None else written(value)
    return told_by(TIMED, written(key), raw, debezium=debezium)


def test_of_timed_rows_a_key_without_a_time_tells_of_none_that_is_gone() -> None:
    row = {"article": "cola", "from_ms": 5}
    assert timed(row, None, debezium=False) == ("cola@5", None)
    assert timed("cola@5", None, debezium=False) == ("cola@5", None)
    assert timed("cola", envelope("d", before=row), debezium=True) == ("cola@5", None)
    assert timed("cola", {**row, "__deleted": "true"}, debezium=False) == ("cola@5", None)
    assert timed("cola", None, debezium=True) is None  # the envelope before it has told
    for value in (None, wrapped(None)):
        with pytest.raises(UnreadableError, match="its key no 'from_ms'") as found:
            timed("cola", value, debezium=False)
        assert found.value.key == "cola"
    with pytest.raises(UnreadableError, match="'article' and 'from_ms'"):
        timed("cola", envelope("d", before={"article": "cola"}), debezium=True)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(UnreadableError, match="not JSON") as found:
        told_by(PRICE, b"cola", b"{", debezium=False)
    assert found.value.key == "cola"
    with pytest.raises(UnreadableError, match="no value"):
        told_by(PRICE, None, None, debezium=False)
