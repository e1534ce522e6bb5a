"""A service that enrichments ask: what a row of the flow says of it, and which rows are refused."""

from dataclasses import replace
from typing import Any

import pytest

from local_stack.verbs.flow import document, picture
from shared.flow_table import Flow
from shared.lookups import HttpLookup
from shared.lookups.given_data import GivenData
from shared.model import Arrival, Draft, Endpoint, Entity, EventType, MasterData, NotYet
from shared.retry_policy import RetryPolicy

OWNER = HttpLookup("owner", "https://directory.example/badges/{key}")


def _ask(payload: dict[str, Any], arrival: Arrival, master: MasterData) -> Draft:
    return Draft("asked", arrival.at_ms, master.answers("owner", payload["keys"]))


def _flow(*lookups: Any, **changes: Any) -> Flow:
    row = Endpoint("badge", _ask, ("asked",), lookups=lookups, retry=RetryPolicy())
    return Flow(
        endpoints=(replace(row, **changes), replace(row, name="other", lookups=(OWNER,))),
        event_types=(EventType("asked"),),
        entities=(Entity("door", ("asked",), lambda _: {}, lambda state, _: state),),
    )


def test_a_flow_shows_what_its_jobs_ask() -> None:
    flow = _flow(OWNER)
    assert flow.lookups == (OWNER,)
    for job in flow.jobs():
        asks = (OWNER.url,) if job.name in ("enrich", "retry") else ()
        assert job.asks == asks
    assert "  asks        GET https://directory.example/badges/{key}" in picture(flow)
    assert document(flow)["endpoints"][0]["lookups"] == ["owner"]


@pytest.mark.parametrize(
    ("lookup", "says"),
    [
        (replace(OWNER, url="ftp://h/{key}"), "write http://host/path/{key}"),
        (replace(OWNER, url="/badges/{key}"), "write http://host/path/{key}"),
        (replace(OWNER, url="http://h/badges"), "{key} stands in it once, in its path or query"),
        (replace(OWNER, url="http://h/{key}/{key}"), "{key} stands in it once"),
        (replace(OWNER, url="http://{key}/badges"), "{key} stands in it once"),
        (replace(OWNER, url="http://h/badges#{key}"), "{key} stands in it once"),
        (replace(OWNER, url="http://me:secret@h/{key}"), "give it in `headers`"),
        (replace(OWNER, within_s=0), "within_s must be above 0"),
        (replace(OWNER, rests_s=-1), "rests_s above 0"),
        (replace(OWNER, absent_for_s=61), "at most fresh_for_s"),
        (replace(OWNER, at_once_max=0), "must be at least 1"),
        (replace(OWNER, kept_bytes_max=10), "kept_bytes_max must be at least"),
        (replace(OWNER, headers={"a\n": "s3cret"}), "a name in `headers` is none"),
        (replace(OWNER, headers={"token": "s3cret\n"}), "'token' in `headers` must be text of"),
        (replace(OWNER, headers={"token": "s3cret\r\nb: c"}), "may end in a line break"),
        (replace(OWNER, headers={"token": " s3cret"}), "without spaces around it"),
        (replace(OWNER, headers={"token": "s3cret ü"}), "printable ASCII"),
        (replace(OWNER, headers={"token": None}), "must be text"),  # type: ignore[dict-item]
        (replace(OWNER, answer=bytes), "a contract that cannot be used"),
        (replace(OWNER, name="The owner"), "use lower-case letters"),
        (replace(OWNER, name="door"), "has the name of an entity"),
        (replace(OWNER, within_s=1), "is declared twice, and differs"),
        ("owner", "is no look-up; write HttpLookup"),
    ],
)
def test_a_row_that_cannot_be_is_refused_with_what_to_do(lookup: Any, says: str) -> None:
    with pytest.raises(ValueError, match="look-up") as refused:
        _flow(lookup)
    assert says in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_who_asks_may_have_to_wait_and_says_how() -> None:
    with pytest.raises(
        ValueError, match=r"endpoint badge asks 'owner', which may be away: .*retry"
    ):
        _flow(OWNER, retry=None)
    with pytest.raises(ValueError, match="lookups is no tuple"):
        _flow(lookups=OWNER)


def test_in_a_test_of_a_domain_answers_are_plain_values() -> None:
    given = GivenData(services={"owner": {"b-1": {"holder": "ann"}, "b-2": NotYet("it is away")}})
    arrival = Arrival("door-1", 7)
    assert _ask({"keys": ["b-1", "b-3"]}, arrival, given).data == {
        "b-1": {"holder": "ann"},
        "b-3": None,
    }
    with pytest.raises(NotYet, match="it is away"):
        _ask({"keys": ["b-2"]}, arrival, given)
    rows = GivenData(rows={"price": {"tea": {"cents": 5}}}, states={"order": {"o-1": {"n": 1}}})
    assert (rows.find("price", "tea"), rows.find("price", "milk")) == ({"cents": 5}, None)
    assert (rows.state("order", "o-1"), rows.version("order", "o-2")) == ({"n": 1}, 0)


def test_in_a_test_of_a_domain_rows_count_from_their_time_on() -> None:
    rates = {"north@-5": {"cents": 12}, "north@100": {"cents": 14}, "south@0": NotYet("away")}
    given: MasterData = GivenData(rows={"rate": rates, "price": {"tea": {"cents": 5}}})
    found = [given.find_at("rate", "north", time_ms) for time_ms in (-6, -5, 99, 100)]
    assert found == [None, {"cents": 12}, {"cents": 12}, {"cents": 14}]
    assert given.find_at("rate", "west", 0) is None
    with pytest.raises(NotYet, match="away"):
        given.find_at("rate", "south", 0)
    with pytest.raises(LookupError, match=r"given as 'tea', .* write 'tea@0'"):
        given.find_at("price", "tea", 0)
