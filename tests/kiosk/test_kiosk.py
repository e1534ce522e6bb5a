"""The domain alone."""

import kiosk
import orjson
import pytest

from clients.kafka.records import Outgoing, Payload
from shared.events import envelope
from shared.events.envelope import Position, read_event
from shared.model import Event, Fields
from stream_jobs.enrich.enrich_payload import enricher


class Prices:
    def __init__(self, **cents: int) -> None:
        self._cents = cents

    def find(self, table: str, key: str) -> Fields | None:
        assert table == "price"
        return {"article": key, "cents": self._cents[key]} if key in self._cents else None


def _made_of(prices: Prices) -> Outgoing:
    headers = [(envelope.ID, b"p-1"), (envelope.TYPE, b"ingest.sale")]
    value = orjson.dumps({"article": "cola", "count": 2})
    place = Position("ingest.sale.v1", 0, 1)
    payload = Payload(place, b"kiosk-1", value, headers, 1_700_000_000_000)
    (made,) = enricher(kiosk.FLOW)(payload, prices)
    return made


def test_a_sale_costs_what_the_price_says() -> None:
    made = _made_of(Prices(cola=150))
    event = read_event(Position(made.topic, 0, 0), made.value or b"")
    assert event.data == {"article": "cola", "count": 2, "cents": 300}


def test_a_sale_waits_for_its_price() -> None:
    made = _made_of(Prices(chips=200))
    assert made.topic == "retry.enrich.v1"
    assert envelope.text(made.headers, envelope.REASON) == "missing_price"
    assert envelope.text(made.headers, envelope.DETAIL) == "cola"


def test_a_kiosk_adds_up_what_it_has_sold() -> None:
    state = kiosk.new_kiosk("kiosk-1")
    for number, (article, cents) in enumerate([("cola", 300), ("chips", 200)]):
        data = {"article": article, "count": 1, "cents": cents}
        state = kiosk.fold(state, Event(f"e-{number}", "sold", "kiosk-1", 0, 0, False, data))
    assert state == {"kiosk": "kiosk-1", "cents": 500, "articles": ["cola", "chips"]}


@pytest.mark.parametrize("cents", [-1, "150", None])
def test_a_price_must_be_a_number_of_cents(cents: object) -> None:
    from shared.master_data.rows import BadRowError, row_of

    with pytest.raises(BadRowError, match="cents"):
        row_of(kiosk.FLOW.tables[0], {"cents": cents}, "cola")
