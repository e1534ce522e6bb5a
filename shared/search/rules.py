"""What makes a row of a search index one that does not add up, told with what to do. Pure."""

import re
from collections.abc import Collection, Sequence

from shared.model import SearchIndex

_ALIAS = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


def refuse_bad_search_indexes(rows: Sequence[SearchIndex], with_state: Collection[str]) -> None:
    names = [row.alias for row in rows]
    for row in rows:
        who = f"SearchIndex {row.alias}"
        if row.of not in with_state:
            known = ", ".join(with_state) or "none"
            raise ValueError(
                f"{who} is of {row.of!r}, which is no entity or aggregate of this flow; there are: "
                f"{known}"
            )
        if not _ALIAS.fullmatch(row.alias):
            raise ValueError(
                f"{who}: an index is called by lower-case letters, digits, dots, dashes and "
                "underscores, at most 100, and begins with a letter or a digit"
            )
        if names.count(row.alias) > 1:
            raise ValueError(f"two rows are called {who}: give one of them a name of its own")
