"""What an error of PostgreSQL's says of the store and of the row, by its SQLSTATE. Pure.

PostgreSQL's own manual has the list of them (appendix A).
"""

from typing import Literal

# away: nothing is wrong with the data; slow: the same, and less at once may go; refused: this row
# may not stand there; later: it may not now; unknown: a mistake of ours
Judgement = Literal["away", "slow", "refused", "later", "unknown"]

_REFUSED = {
    "22",  # data exception: a number out of range, a text that no UTF-8 is
    "23",  # integrity constraint: not null, check, unique
    "54",  # program limit: too large for an index
}
# What a row refers to may come: a foreign key. And what code of the user's says, in a trigger: only
# that code knows whether it will always say so
_LATER = {"23503"}
_LATER_CLASSES = {
    "P0",  # RAISE EXCEPTION
    "09",  # triggered action
    "27",  # triggered data change
    "2F",  # SQL routine
    "38",  # external routine
    "39",  # call of an external routine
    "44",  # WITH CHECK OPTION
}
# an object of Headrace's own that is missing, not granted, or of another kind than it should be
_SCHEMA_MISSING = {"3F000", "42P01", "42703", "42883", "42804", "42P10"}
_NOT_GRANTED = "42501"
_REPLICA = "25006"
_CANCELED = "57014"  # by statement_timeout, or by an operator

# Others are at work on the same rows: a transaction is tried again as a whole, and may do then
_CONFLICTS = {"40001", "40P01"}
_LOCKED = {"55P03", "55006"}

# connection, resources, shutdown, disk: the store's own, also where they show in a trigger
_OF_THE_STORE = {"08", "53", "57", "58"}


def judge(sqlstate: str, *, in_function: bool, is_passing: bool) -> Judgement:
    """`is_passing`: the driver counts it among the errors of operation."""
    kind = sqlstate[:2]
    if sqlstate in _LATER or kind in _LATER_CLASSES:
        return "later"
    if kind in _REFUSED:
        return "refused"
    if sqlstate == _CANCELED:
        return "slow"
    if in_function and kind not in _OF_THE_STORE and not may_be_of_one_row(sqlstate):
        return "later"  # a trigger may raise any code, or lack what other rows do not ask for
    lacks = sqlstate in _SCHEMA_MISSING or sqlstate == _NOT_GRANTED
    if lacks or sqlstate == _REPLICA or is_passing:
        return "away"
    return "unknown"


def advice(sqlstate: str) -> str:
    """Before what PostgreSQL says itself; empty where that is all."""
    if sqlstate in _SCHEMA_MISSING:
        return "no schema yet (run migrate): "
    if sqlstate == _NOT_GRANTED:
        return "a right is missing (run migrate, it grants them): "
    return ""


def is_conflict(sqlstate: str) -> bool:
    return sqlstate in _CONFLICTS


def may_be_of_one_row(sqlstate: str) -> bool:
    """Whether one row alone can be why the store counts as away: somebody has locked it, or a
    trigger takes too long for it."""
    return sqlstate in _CONFLICTS or sqlstate in _LOCKED or sqlstate == _CANCELED
