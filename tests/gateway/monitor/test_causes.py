"""Of the checks that are not well, the causes are told apart from what follows from them."""

from typing import Any

from gateway.monitor.causes import BECAUSE, FOLLOWS, KAFKA, Since, name_causes


def _named(**checks: tuple[bool, tuple[str, ...]]) -> tuple[list[str], dict[str, str]]:
    """By whether each is well, and what would explain that it is not."""
    told: dict[str, dict[str, Any]] = {
        name: {"status": "pass" if well else "warn", BECAUSE: because}
        for name, (well, because) in checks.items()
    }
    causes = name_causes(told)
    assert not any(BECAUSE in check for check in told.values()), "it is nobody's to read"
    return causes, {name: check[FOLLOWS] for name, check in told.items() if FOLLOWS in check}


def test_where_all_is_well_there_is_no_cause() -> None:
    assert _named(store=(True, ()), job=(True, ("store",))) == ([], {})


def test_what_follows_is_told_from_what_and_through_what_lies_between() -> None:
    told = _named(
        store=(False, ()),
        breaker=(False, ("store",)),
        job=(False, ("other", "breaker")),
        other=(True, ()),
    )
    assert told == (["store"], {"breaker": "store", "job": "store"})


def test_what_would_be_explained_by_one_that_is_well_is_a_cause() -> None:
    assert _named(store=(True, ()), job=(False, ("store",))) == (["job"], {})


def test_two_that_have_nothing_to_do_with_each_other_are_two_causes() -> None:
    assert _named(letters=(False, ()), job=(False, ("store",))) == (["letters", "job"], {})


def test_a_check_that_is_not_there_explains_nothing() -> None:
    checks: dict[str, dict[str, Any]] = {"job": {"status": "fail", BECAUSE: (KAFKA,)}}
    assert name_causes(checks) == ["job"]


def test_since_when_a_check_is_not_well_is_told_until_it_is_well_again() -> None:
    since = Since()

    def told(at_ms: int, **status: str) -> dict[str, Any]:
        checks: dict[str, Any] = {name: {"status": one} for name, one in status.items()}
        since.tell(checks, at_ms)
        return {name: check.get("since") for name, check in checks.items()}

    first, later = "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:05.000Z"
    assert told(0, kafka="pass", job="warn") == {"kafka": None, "job": first}
    assert told(5_000, kafka="fail", job="fail") == {"kafka": later, "job": first}
    assert told(6_000, kafka="pass", job="pass") == {"kafka": None, "job": None}
    assert told(5_000, kafka="pass", job="warn")["job"] == later
