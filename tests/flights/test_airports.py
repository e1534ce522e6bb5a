import random
from functools import reduce
from typing import Any

import airports
import flights
from hypothesis import given
from hypothesis import strategies as st

from shared.contract import contract_of

STATUSES = ("unknown", "scheduled", "delayed", "departed", "arrived", "cancelled")

boards = st.lists(
    st.builds(
        lambda number, origin, status: {
            **flights.initial(f"LH{number}"),
            "origin": origin,
            "status": status,
        },
        st.integers(1, 999),
        st.sampled_from(["FRA", "MUC", None]),
        st.sampled_from(STATUSES),
    ),
    max_size=20,
)


@given(boards, st.randoms())
def test_in_whatever_order_flights_are_added_the_board_is_the_same(
    board: list[dict[str, Any]], dice: random.Random
) -> None:
    shares = [share for share in map(airports.share, board) if share is not None]
    dice.shuffle(shares)
    for airport in ("FRA", "MUC"):
        own = [share.fields for share in shares if share.of == airport]
        cut = dice.randint(0, len(own))
        parts = [reduce(airports.add, part) for part in (own[:cut], own[cut:]) if part]
        total = airports.total(airport, reduce(airports.add, parts) if parts else None)
        there = [flight["status"] for flight in board if flight["origin"] == airport]
        counted = {status: there.count(status) for status in STATUSES[2:]}
        assert total == {"airport": airport, "flights": len(there), **counted}
        assert contract_of(airports.Airport).breach(total) is None


def test_airports_only_add_to_the_flow_of_the_flights() -> None:
    own = {topic.name for topic in airports.FLOW.topics()}
    former = {topic.name for topic in flights.FLOW.topics()}
    assert own - former == {"state.airport.v1", "dlq.aggregate.v1"}
    assert former <= own
