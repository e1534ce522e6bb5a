from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.problems import Problem
from gateway.ingest import split_batch
from gateway.ingest.record import Item, read_head
from gateway.kafka_writer.outcome import NotWritten, OutcomeUnknown, Receipt
from tests.gateway.support import Gateway

NDJSON = {"content-type": "application/x-ndjson"}
FRAMES = {"content-type": "application/vnd.headrace.frames"}
KEYED_FRAMES = {**FRAMES, "idempotency-key": "k"}
KIB = 1024


def _frame(entity_id: str, payload: bytes, key: str | None = None) -> bytes:
    head = f"{entity_id} {len(payload)}" + (f" {key}" if key else "")
    return head.encode() + b"\n" + payload + b"\n"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["device-0001", "device-0002", "x"]),
            st.binary(min_size=1, max_size=60),
            st.sampled_from([None, "a", "k-7"]),
        ),
        max_size=10,
    )
)
def test_whatever_is_framed_is_cut_out_as_it_was(rows: list[tuple[str, bytes, str | None]]) -> None:
    body = b"".join(_frame(*row) for row in rows)
    assert list(split_batch.frames(body, KIB)) == [
        Item(entity_id, payload, (key,) if key else None) for entity_id, payload, key in rows
    ]


@given(st.binary(max_size=80))
def test_any_bytes_are_frames_or_refused(body: bytes) -> None:
    items = list(split_batch.frames(body, 16))
    bad = [item for item in items if isinstance(item, Problem) and item.code == "bad_frame"]
    assert bad in ([], items[-1:])


@given(st.binary(max_size=80))
def test_lines_hold_every_byte_but_the_newlines(body: bytes) -> None:
    items = list(split_batch.ndjson(body, "x", None, KIB))
    kept = [item.payload for item in items if isinstance(item, Item)]
    assert kept == [line for line in body.split(b"\n") if line.strip()]


@pytest.mark.parametrize(
    "body",
    [
        b"device-0001",
        b"device-0001\n{}\n",
        b"device-0001 two\n{}\n",
        b"device-0001 -1\n{}\n",
        b"device-0001 3\n{}\n",
        b"device-0001 1\n{}\n",
        b"device-0001 2\n{}",
        b"device-0001 9999999999\n{}\n",
        b"device-0001 2 key more\n{}\n",
        b"x" * 600 + b" 2\n{}\n",
    ],
    ids=repr,
)
def test_a_frame_that_cannot_be_cut_out_ends_the_batch_and_spoils_nothing_before(
    body: bytes,
) -> None:
    good = _frame("device-0001", b"{}")
    items = list(split_batch.frames(good + body, KIB))
    assert items[0] == Item("device-0001", b"{}", None)
    (problem,) = items[1:]
    assert isinstance(problem, Problem)
    assert (problem.code, problem.outcome) == ("bad_frame", "definite")
    assert f"byte {len(good)}" in problem.detail


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (_frame("-x", b"{}"), "bad_entity_id"),
        (_frame("d\xe9", b"{}"), "bad_entity_id"),
        (_frame("x", b""), "empty_body"),
        (_frame("x", b"a" * (KIB + 1)), "body_too_large"),
        (_frame("x", b"{}", "k" * 256), "bad_idempotency_key"),
    ],
    ids=["entity id", "no ascii", "empty", "large", "key"],
)
def test_a_bad_frame_that_can_be_cut_out_spoils_no_other(frame: bytes, code: str) -> None:
    good = _frame("device-0001", b"{}")
    first, bad, last = split_batch.frames(good + frame + good, KIB)
    assert first == last == Item("device-0001", b"{}", None)
    assert isinstance(bad, Problem)
    assert bad.code == code


def test_each_line_gets_a_receipt_and_its_own_record(gateway: Gateway) -> None:
    body = b'{"value": 1}\n\n\xff\x00 no json\r\n{"value": 3}'
    answer = gateway.post(content=body, headers=NDJSON)

    assert answer.status_code == 207
    told = answer.json()
    assert (told["accepted"], told["refused"]) == (3, 0)
    assert [receipt["line"] for receipt in told["receipts"]] == [0, 2, 3]
    assert [record.value for record in gateway.log.records] == [
        b'{"value": 1}',
        b"\xff\x00 no json\r",
        b'{"value": 3}',
    ]
    for receipt, record in zip(told["receipts"], gateway.log.records, strict=True):
        assert (receipt["status"], receipt["topic"]) == (202, "ingest.telemetry.v1")
        assert UUID(receipt["id"]).version == 7
        assert record.key == b"device-0001"
        assert record.headers["ce_id"] == receipt["id"].encode()
        assert record.headers["content-type"] == b"application/json"


def test_a_batch_that_is_sent_again_gets_the_same_ids(gateway: Gateway) -> None:
    options: dict[str, Any] = {
        "content": b"1\n1\n\n2",
        "headers": {**NDJSON, "idempotency-key": "k"},
    }
    first, second = (gateway.post(**options).json()["receipts"] for _ in range(2))
    ids = [receipt["id"] for receipt in first]
    assert ids == [receipt["id"] for receipt in second]
    assert len(set(ids)) == 3


def test_frames_go_to_their_entities_and_a_key_means_what_it_means_alone(gateway: Gateway) -> None:
    body = _frame("device-0001", b"\n\x00\n", "k") + _frame("device-0002", b"{}")
    answer = gateway.post("/v1/telemetry", content=body, headers=FRAMES)
    assert answer.status_code == 207
    alone = gateway.post(content=b"\n\x00\n", headers={"idempotency-key": "k"})
    assert answer.json()["receipts"][0]["id"] == alone.json()["id"]
    one, two, _ = gateway.log.records
    assert (one.key, one.value) == (b"device-0001", b"\n\x00\n")
    assert (two.key, two.value) == (b"device-0002", b"{}")
    assert "content-type" not in one.headers


def test_a_bad_line_is_told_by_its_number_and_the_others_are_written(gateway: Gateway) -> None:
    limit = gateway.settings.body_bytes_max
    body = b"1\n" + b"x" * (limit + 1) + b"\n3"
    told = gateway.post(content=body, headers=NDJSON).json()
    assert [receipt["status"] for receipt in told["receipts"]] == [202, 413, 202]
    refusal = told["receipts"][1]
    assert (refusal["line"], refusal["code"]) == (1, "body_too_large")
    assert refusal["outcome"] == "definite"
    assert [record.value for record in gateway.log.records] == [b"1", b"3"]


def test_no_more_of_a_batch_is_looked_at_than_may_be_taken() -> None:
    head = read_head({b"idempotency-key": b"k"})
    frames = iter([*[Problem(400, "bad", "bad")] * 3, *[None] * 1000])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_batch, "frames", lambda *_: frames)
        patch.setattr(split_batch, "ndjson", lambda *_: pytest.fail("the lines were cut"))
        for entity_id in ("", "d"):
            with pytest.raises(Problem, match="batch_too_long"):
                split_batch.split(b"\n" * 3, entity_id, head, KIB, 2)
    assert len(list(frames)) == 1000


def test_a_line_that_is_sent_again_alone_keeps_its_id_and_takes_no_others(gateway: Gateway) -> None:
    keyed = {**NDJSON, "idempotency-key": "k"}
    whole = gateway.post(content=b"1\n2\n3\n2", headers=keyed).json()["receipts"]
    ids = [receipt["id"] for receipt in whole]
    assert len(set(ids)) == 4
    (alone,) = gateway.post(content=b"3", headers=keyed).json()["receipts"]
    assert alone["id"] == ids[2]


def test_a_batch_too_large_is_told_the_setting_of_batches(gateway: Gateway) -> None:
    detail = gateway.post(content=b"1" * 2001, headers=NDJSON).json()["detail"]
    assert "2000 bytes" in detail
    assert "HEADRACE_BATCH_BYTES_MAX" in detail


def test_a_first_frame_that_cannot_be_cut_out_leaves_nothing_accepted(gateway: Gateway) -> None:
    detail = gateway.post("/v1/telemetry", content=b"nonsense", headers=FRAMES).json()["detail"]
    assert detail.startswith("nothing was accepted: the frame at byte 0 cannot be cut out (")
    assert detail.endswith("; it and all after it were not written")


def test_what_became_of_each_is_told_apart(gateway: Gateway, monkeypatch: Any) -> None:
    ends = [Receipt("t", 0, 1), OutcomeUnknown(), NotWritten("kafka_unreachable", "away")]
    monkeypatch.setattr(gateway.log, "put", lambda _topic, _records, on_written: on_written(ends))
    told = gateway.post(content=b"1\n2\n3", headers=NDJSON).json()
    told_ends = [(r["status"], r.get("outcome")) for r in told["receipts"]]
    assert told_ends == [(202, None), (503, "unknown"), (503, "definite")]
    for refusal in told["receipts"][1:]:
        assert "with its whole batch where an Idempotency-Key stands" in refusal["detail"]


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [(NotWritten("kafka_unreachable", "Kafka is away"), "definite"), (OutcomeUnknown(), "unknown")],
)
def test_where_nothing_was_accepted_the_status_says_so(
    gateway: Gateway, failure: Exception, outcome: str
) -> None:
    gateway.log.failure = failure
    answer = gateway.post(content=b"1\n2", headers=NDJSON)
    assert (answer.status_code, answer.json()["outcome"]) == (503, outcome)
    assert answer.headers["retry-after"] == "1"
    detail = answer.json()["detail"]
    assert detail.startswith("nothing was accepted: Kafka ")
    assert "with its whole batch where an Idempotency-Key stands for that, else alone" in detail


@pytest.mark.parametrize(
    ("path", "content", "headers", "status", "code"),
    [
        ("/v1/telemetry", b"{}", {}, 415, "no_entity"),
        ("/v1/telemetry", b"{}", NDJSON, 415, "no_entity"),
        ("/v1/telemetry/", b"{}", FRAMES, 400, "bad_entity_id"),
        ("/v1/telemetry/d", b"1", {**NDJSON, "content-encoding": "gzip"}, 415, "encoded_batch"),
        ("/v1/telemetry", b"1", {**FRAMES, "content-encoding": "gzip"}, 415, "encoded_batch"),
        ("/v1/telemetry/d", b"", NDJSON, 400, "empty_body"),
        ("/v1/telemetry/d", b"\n \r\n", NDJSON, 400, "empty_body"),
        ("/v1/telemetry", b"", FRAMES, 400, "empty_body"),
        ("/v1/telemetry", b"nonsense", FRAMES, 400, "bad_frame"),
        ("/v1/telemetry/d", b"d 2\n{}\n", FRAMES, 415, "frames_with_entity"),
        ("/v1/telemetry", b"d 2\n{}\n", KEYED_FRAMES, 400, "bad_idempotency_key"),
        ("/v1/telemetry/d", b"1\n" * 101, NDJSON, 413, "batch_too_long"),
        ("/v1/telemetry/d", b"1\n" * 100 + b"1", NDJSON, 413, "batch_too_long"),
        ("/v1/telemetry/d", b"\n" * 2000, NDJSON, 413, "batch_too_long"),
        ("/v1/telemetry", b"d 1\n1\n" * 101, FRAMES, 413, "batch_too_long"),
        ("/v1/telemetry", b"- 0\n\n" * 101, FRAMES, 413, "batch_too_long"),
        ("/v1/telemetry/d", b"1" * (9 << 20), NDJSON, 413, "body_too_large"),
    ],
)
def test_a_batch_that_cannot_be_taken_is_refused_whole(
    gateway: Gateway, path: str, content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    answer = gateway.post(path, content=content, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["outcome"] == "definite"
    assert gateway.log.records == []


def test_a_batch_takes_as_many_places_as_it_has_payloads(gateway: Gateway) -> None:
    gateway.log.pause_s = 0.2
    most = gateway.settings.in_flight_payloads_max
    lines = gateway.settings.batch_payloads_max
    options = {"content": b"1\n" * lines, "headers": NDJSON}
    asked = [("POST", "/v1/telemetry/d", options)] * (most // lines + 1)
    statuses = sorted(answer.status_code for answer in gateway.ask_all(asked))
    assert statuses == [207] * (most // lines) + [503]
