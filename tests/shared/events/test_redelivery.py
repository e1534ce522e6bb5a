import pytest

from shared.events import envelope, redelivery
from shared.events.envelope import Header, Position
from shared.events.redelivery import FirstArrival

TOPICS = {"ingest.telemetry.v1"}
PLACE = Position("ingest.telemetry.v1", 2, 17)
WELL = dict(
    redelivery.headers_of([(envelope.ID, b"an-id")], FirstArrival(PLACE, 1_700_000_000_000, 1))
)


def _with(**changes: bytes | None) -> list[Header]:
    changed = {**WELL, **{f"ce_{name}": value for name, value in changes.items()}}
    return [(name, value) for name, value in changed.items() if value is not None]


@pytest.mark.parametrize("revision", [0, 3])
def test_what_is_written_is_what_is_read(revision: int) -> None:
    first = FirstArrival(PLACE, 1_700_000_000_000, attempt=2, revision=revision)
    own = [("traceparent", b"00-x"), (envelope.ID, b"an-id"), ("x", b"\xff")]
    letter = [*own, (envelope.STAGE, b"enrich"), (envelope.REASON, b"no"), (envelope.ATTEMPT, b"1")]
    headers = redelivery.headers_of(letter, first)
    assert redelivery.first_of(headers, TOPICS) == first
    assert headers[:3] == own
    assert not {envelope.STAGE, envelope.REASON} & dict(headers).keys()


def test_a_foreign_producers_payload_keeps_the_id_that_it_was_known_by() -> None:
    assert (
        dict(redelivery.headers_of([], FirstArrival(PLACE, 0, 1)))[envelope.ID]
        == str(PLACE).encode()
    )


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ([], "ce_id is missing"),
        (_with(id=b""), "ce_id is missing"),
        (_with(origin=None), "ce_origin is missing"),
        (_with(origin=b"here"), "'here', not topic/partition/offset"),
        (_with(origin=b"ingest.telemetry.v1/2/x"), "not topic/partition/offset"),
        (_with(origin=b"ingest.telemetry.v1/2/-1"), "no such place can be"),
        (_with(origin=b"ingest.other.v1/0/1"), "no endpoint owns that topic"),
        (_with(origin=b"again.enrich.v1/0/1"), "no endpoint owns that topic"),
        (_with(arrivedms=None), "ce_arrivedms is missing"),
        (_with(arrivedms=b"soon"), "ce_arrivedms is 'soon', not a whole number"),
        (_with(arrivedms=b"9" * 18), "no time in the years"),
        (_with(attempt=None), "ce_attempt is missing"),
        (_with(attempt=b"0"), "not a whole number from 1 on"),
        (_with(attempt="\N{SUPERSCRIPT TWO}".encode()), "not a whole number"),
        (_with(revision=b"0"), "not a whole number from 1 on"),
        (_with(revision=b"-1"), "not a whole number"),
    ],
)
def test_what_does_not_say_where_it_came_from_is_told(headers: list[Header], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        redelivery.first_of(headers, TOPICS)
