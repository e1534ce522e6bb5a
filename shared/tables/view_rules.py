"""What makes a view's row one that does not add up, told with what to do. What its SQL says Spark
judges, before the view's first batch. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import get_args

from shared.model import EventType, View, ViewResults
from shared.tables.columns import columns_of
from shared.tables.view_rows import COLUMN, PARAMETERS, TENANT
from shared.tables.view_tables import table_of

# of a second version on the job's name ends so
_LIKE_A_VERSION = re.compile(r".*_v\d+")
_LATE_AFTER_S_MAX = 30 * 86_400


def refuse_bad_views(rows: Sequence[View], event_types: Sequence[EventType]) -> None:
    types = {row.name: row for row in event_types}
    for row in rows:
        who = f"view {row.name}"
        for field in ("of", "key"):
            its = getattr(row, field)
            if not isinstance(its, tuple) or not its:
                raise ValueError(f"{who}: `{field}` is a tuple: one name alone needs a comma, too")
        if _LIKE_A_VERSION.fullmatch(row.name):
            raise ValueError(f"{who}: a name ends with _v and a number where its version does")
        if len(set(row.of)) < len(row.of):
            raise ValueError(f"{who}: `of` names an event type twice: a view reads each once")
        for name in row.of:
            _refuse_bad_table(who, name, types)
        if not isinstance(row.sql, str) or not row.sql.strip():
            raise ValueError(f"{who}: `sql` is a SELECT of Spark's SQL")
        for name in row.key:
            if not COLUMN.fullmatch(name):
                raise ValueError(
                    f"{who}: {name!r} in its key is no plain name of a column: call it "
                    "`AS some_name` in the SELECT"
                )
        if taken := next((name for name in row.key if name.lower() in PARAMETERS), None):
            raise ValueError(
                f"{who}: {taken!r} is what GET /views calls something else: name the column "
                "otherwise, by AS"
            )
        if len(set(map(str.lower, row.key))) < len(row.key):
            raise ValueError(f"{who}: its key names a column twice")
        if TENANT in row.key[1:]:
            # a tenant's operator is shown that part of the keys, and no other
            raise ValueError(f"{who}: put {TENANT} first in its key")
        if row.results not in get_args(ViewResults):
            raise ValueError(f"{who}: results are {' or '.join(get_args(ViewResults))}")
        if not 0 < row.late_after_s <= _LATE_AFTER_S_MAX:
            raise ValueError(f"{who}: late_after_s is more than 0 and at most 30 days")
        if type(row.version) is not int or row.version < 1:
            raise ValueError(f"{who}: version is a whole number from 1 on")
        if row.row is not None:
            try:
                table_of(row)
            except ValueError as error:
                raise ValueError(f"{who}: {error}") from error
        if sum(one.topic == row.topic for one in rows) > 1:
            raise ValueError(
                f"{who}: version {row.version} is declared twice: give the one that is made beside "
                "the other a higher one"
            )


def _refuse_bad_table(who: str, name: str, types: Mapping[str, EventType]) -> None:
    its_type = types.get(name)
    if its_type is None:
        known = ", ".join(types)
        raise ValueError(
            f"{who} is of {name!r}, which is no event type of this flow; there are: {known}"
        )
    if its_type.data is None:
        raise ValueError(
            f"{who}: event type {its_type.name} has no contract, so nothing is known of its "
            "columns: give it `data`"
        )
    try:
        columns_of((its_type,))
    except ValueError as error:
        raise ValueError(f"{who}: {error}") from error
