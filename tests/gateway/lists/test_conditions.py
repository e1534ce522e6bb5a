import pytest

from gateway.http.problems import Problem
from gateway.lists.conditions import CONDITIONS_MAX, Condition, conditions_of
from gateway.lists.spans import Bound, Span, Spans, spans_of
from shared.tables.indexed_fields import indexed_states
from tests.gateway.lists.support import room

(STATES,) = indexed_states([room("mode", "celsius", "site.floor", "is_open")])


def test_conditions_are_read_as_those_of_webhooks_joined_by_and() -> None:
    told = [r' mode="a \" and b" and celsius>=-1.5', "site.floor != null and is_open=true"]
    assert conditions_of(STATES, told) == (
        Condition("mode", "=", 'a " and b'),
        Condition("celsius", ">=", -1.5),
        Condition("site.floor", "!=", None),
        Condition("is_open", "=", True),
    )
    assert conditions_of(STATES, ['id < "x"']) == (Condition("id", "<", "x"),)
    large = Condition("site.floor", "<", float(1 << 63))
    assert conditions_of(STATES, [f"site.floor < {1 << 63}"]) == (large,)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("", "write an indexed field, one of = != < <= > >="),
        ("mode", "write an indexed field"),
        ("mode = ", "write an indexed field"),
        ("mode == 1", "= is no value of JSON"),
        ("mode = day", "day is no value of JSON; a text needs double quotes"),
        ('mode = "a" or celsius > 1', "write an indexed field"),
        ('mode = "a" and', "write an indexed field"),
        ('mode = "a" celsius > 1', "write an indexed field"),
        ("celsius > 1 and and celsius < 2", "write an indexed field"),
        ("celsius > 30; DROP TABLE record", "30; is no value of JSON"),
        ("celsius > 1e999", "1e999 is no value of JSON"),
        ('celsius > "1"', "celsius is compared with a number"),
        ("celsius > true", "celsius is compared with a number"),
        ("celsius > null", "what is nothing is only = or != null"),
        ("mode = 1", "mode is compared with a text, in double quotes"),
        ("mode = [1]", "mode is compared with a text"),
        ("is_open = 1", "is_open is compared with true or false by = or !="),
        ("is_open > false", "is_open is compared with true or false by = or !="),
        ("id = null", "id is compared with a text"),
        (
            "tags = 1",
            "tags is no indexed field of room; it is found and sorted by: id, mode, celsius, "
            "site.floor, is_open",
        ),
        (" and ".join(["celsius > 1"] * (CONDITIONS_MAX + 1)), "has 21 conditions, 20 may be"),
    ],
)
def test_what_is_no_condition_is_told(told: str, said: str) -> None:
    with pytest.raises(Problem) as refused:
        conditions_of(STATES, [told])
    assert refused.value.status == 400
    assert said in refused.value.detail


def spans(told: str) -> Spans:
    return spans_of(conditions_of(STATES, [told]))


def test_conditions_on_a_field_come_to_one_span() -> None:
    found = spans("celsius > 1 and celsius >= 1 and celsius < 9 and celsius <= 10 and celsius != 3")
    assert found.by_field == {"celsius": Span(Bound(1, False), Bound(9, False), False, True)}
    assert found.unlike == (Condition("celsius", "!=", 3),)
    assert spans('mode = "a"').by_field["mode"].is_one_value
    assert spans("celsius = null").by_field["celsius"].is_one_value


@pytest.mark.parametrize(
    ("told", "is_empty"),
    [
        ("celsius > 1 and celsius < 1", True),
        ("celsius > 1 and celsius <= 1", True),
        ("celsius >= 1 and celsius <= 1", False),
        ('mode = "a" and mode = "b"', True),
        ("is_open = true and is_open = false", True),
        ("celsius = null and celsius != null", True),
        ("celsius = null and celsius != 1", False),
        ("celsius = null and celsius < 1", True),
        ("celsius != null and celsius < 1", False),
    ],
)
def test_what_nothing_can_be_is_seen(told: str, is_empty: bool) -> None:
    assert spans(told).is_empty is is_empty
