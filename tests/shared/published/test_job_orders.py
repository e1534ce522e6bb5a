import pytest

from shared.published.job_orders import JobOrder, Wanted, can_be_rebuilt


def test_an_order_comes_back_from_its_record() -> None:
    order = JobOrder(order=Wanted.PAUSE, by="ann", at_ms=1_700_000_000_000, why="the store moves")
    assert JobOrder.from_record(order.to_record()) == order
    assert order.told == "by ann, since 2023-11-14T22:13:20.000Z: the store moves"
    assert order.model_copy(update={"why": ""}).told.endswith(":20.000Z")


def test_what_a_later_version_adds_is_no_hindrance() -> None:
    raw = b'{"order": "rebuild", "by": "ann", "at_ms": 1, "why": "", "until_ms": 2}'
    assert JobOrder.from_record(raw).order is Wanted.REBUILD


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b'{"order": "stop", "by": "ann", "at_ms": 1}', b'{"order": "pause"}']
)
def test_what_is_no_order_is_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match="it is no order"):
        JobOrder.from_record(raw)


def test_only_what_is_made_of_topics_can_be_made_anew() -> None:
    named = ("enrich", "fold", "aggregate", "persist", "forward", "view_by_area", "viewer")
    assert [*filter(can_be_rebuilt, named)] == ["fold", "aggregate", "view_by_area"]
