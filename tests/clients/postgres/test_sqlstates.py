"""What an operator's database really says, and what that means for the row and for the store."""

import pytest

from clients.postgres.sqlstates import advice, is_conflict, judge, may_be_of_one_row

# of the driver's errors of operation, as psycopg has them
_PASSING = ("08", "28", "40", "53", "55", "57", "58")


@pytest.mark.parametrize(
    ("sqlstate", "judgement"),
    [
        ("", "away"),  # the connection is gone, and nobody has said a word
        ("08006", "away"),  # connection failure
        ("28P01", "away"),  # wrong password
        ("28000", "away"),  # pg_hba.conf says no
        ("25006", "away"),  # it is a read-only replica by now
        ("53100", "away"),  # the disk is full
        ("53200", "away"),  # out of memory
        ("53300", "away"),  # too many connections
        ("57P01", "away"),  # it is being shut down
        ("57P03", "away"),  # it starts
        ("58030", "away"),  # I/O error
        ("3F000", "away"),  # no schema yet
        ("42P01", "away"),  # no table yet
        ("42501", "away"),  # no right to it
        ("40001", "away"),  # could not serialize access
        ("40P01", "away"),  # deadlock
        ("55P03", "away"),  # lock timeout
        ("57014", "slow"),  # statement timeout
        ("22003", "refused"),  # a number out of range
        ("22021", "refused"),  # NUL in a text
        ("22P02", "refused"),  # no number at all
        ("23502", "refused"),  # null
        ("23505", "refused"),  # not unique
        ("23514", "refused"),  # a check
        ("54000", "refused"),  # too large for an index
        ("23503", "later"),  # what it refers to may come
        ("P0001", "later"),  # RAISE EXCEPTION in a trigger
        ("XX000", "unknown"),  # a mistake of PostgreSQL's
    ],
)
def test_each_error_is_the_rows_or_the_stores(sqlstate: str, judgement: str) -> None:
    is_passing = not sqlstate or sqlstate[:2] in _PASSING
    assert judge(sqlstate, in_function=False, is_passing=is_passing) == judgement


@pytest.mark.parametrize(
    "sqlstate",
    ["42501", "42P01", "42883", "U0001", "21000", "20000", "0A000", "24000", "55000", "HV000"],
)
def test_what_a_trigger_lacks_or_says_is_the_matter_of_its_row(sqlstate: str) -> None:
    is_passing = sqlstate[:2] in (*_PASSING, "HV")
    assert judge(sqlstate, in_function=True, is_passing=is_passing) == "later"


@pytest.mark.parametrize(
    ("sqlstate", "judgement"),
    [
        ("53200", "away"),
        ("57P01", "away"),
        ("58030", "away"),
        ("08006", "away"),
        ("40001", "away"),
        ("55P03", "away"),
        ("57014", "slow"),
        ("22012", "refused"),
    ],
)
def test_what_the_store_lacks_it_lacks_within_a_trigger_too(sqlstate: str, judgement: str) -> None:
    is_passing = sqlstate[:2] in _PASSING
    assert judge(sqlstate, in_function=True, is_passing=is_passing) == judgement


def test_of_what_makes_the_store_count_as_away_a_single_row_may_be_the_cause() -> None:
    found = {"40001", "40P01", "55P03", "57014", "53100", "57P01", "08006", ""}
    assert {one for one in found if may_be_of_one_row(one)} == {"40001", "40P01", "55P03", "57014"}
    assert {one for one in found if is_conflict(one)} == {"40001", "40P01"}


def test_what_migrate_cures_is_said() -> None:
    assert "run migrate" in advice("42P01")
    assert "run migrate" in advice("42501")
    assert advice("53100") == ""
