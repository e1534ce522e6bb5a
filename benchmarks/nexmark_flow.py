"""NEXMark's people, auctions and bids as event types, and those of its queries that are views.

Query 6 needs the last ten sales of each seller, in order; queries 4 and 5 group what was grouped
already; 3 and 9 join without a bound of time, and 7 joins with what it grouped. Here 3 has a bound
of an hour, and 7 takes the highest bid by `max_by`. The others are as they were published.
"""

from dataclasses import replace

from pydantic import BaseModel

from shared.flow_table import Flow
from shared.model import Arrival, Draft, Endpoint, EventType, Fields, MasterData, View

LATE_AFTER_S = 20.0


class Person(BaseModel):
    name: str
    email: str
    city: str
    state: str


class Auction(BaseModel):
    item: str
    initial: int
    reserve: int
    seller: str
    category: int


class Bid(BaseModel):
    auction: str
    price: int
    channel: str
    url: str


def to_event(payload: Fields, _arrival: Arrival, _master: MasterData) -> Draft:
    return Draft(payload["type"], payload["id"], payload["data"])


_BID = ("bid",)
VIEWS = {
    row.name: replace(row, late_after_s=LATE_AFTER_S)
    for row in (
        View(
            "q0",
            _BID,
            "SELECT event_id, auction, entity_id AS bidder, price, time FROM bid",
            ("event_id",),
        ),
        View(
            "q1",
            _BID,
            "SELECT event_id, auction, entity_id AS bidder, price * 0.908 AS euros, time FROM bid",
            ("event_id",),
        ),
        View(
            "q2",
            _BID,
            """
            SELECT event_id, auction, price FROM bid
            WHERE CAST(substring(auction, 9) AS bigint) % 123 = 0
            """,
            ("event_id",),
        ),
        View(
            "q3",
            ("auction", "person"),
            """
            SELECT a.event_id AS auction_event, p.event_id AS person_event, p.name, p.city, p.state
            FROM auction a JOIN person p ON a.seller = p.entity_id
                AND p.time BETWEEN a.time - INTERVAL 1 HOUR AND a.time
            WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
            """,
            ("auction_event", "person_event"),
        ),
        View(
            "q7",
            _BID,
            """
            SELECT window, max(price) AS price,
                max_by(struct(auction, entity_id AS bidder), struct(price, event_id)) AS bid
            FROM bid GROUP BY window(time, '10 seconds')
            """,
            ("window",),
            "final",
        ),
        View(
            "q8",
            ("person", "auction"),
            """
            SELECT p.entity_id AS id, max(p.name) AS name, p.w AS window
            FROM (SELECT entity_id, name, window(time, '10 seconds') AS w FROM person) p
            JOIN (SELECT seller, window(time, '10 seconds') AS w FROM auction) a
                ON p.entity_id = a.seller AND p.w = a.w
            GROUP BY p.entity_id, p.w
            """,
            ("id",),
            "final",
        ),
        View(
            "q11",
            _BID,
            """
            SELECT entity_id AS bidder, session_window AS window, count(*) AS bids
            FROM bid GROUP BY entity_id, session_window(time, '10 seconds')
            """,
            ("bidder",),
            "final",
        ),
    )
}
FLOW = Flow(
    endpoints=(Endpoint("nexmark", to_event, ("person", "auction", "bid")),),
    event_types=(EventType("person", Person), EventType("auction", Auction), EventType("bid", Bid)),
    entities=(),
)


def flow_of(name: str) -> Flow:
    return replace(FLOW, views=(VIEWS[name],))


# what a job loads: one flow for each query
Q0, Q1, Q2, Q3, Q7, Q8, Q11 = map(flow_of, VIEWS)
