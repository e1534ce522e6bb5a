"""Stores of the user's that hold the rows of a table, as the flow names them: no address, no
password."""

import re
from dataclasses import dataclass

_NAME = re.compile("[a-z0-9_]+")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True)
class SqlSource:
    """A table or view in a PostgreSQL of yours. It is only read."""

    database: str  # HEADRACE_MASTER_DATABASES has its address under this name
    relation: str  # as SQL names it: "shop.price"
    # a column that grows with each change of its row: a time or a number. Without it all rows are
    # read each time
    version: str | None = None
    # a column that is true, or a time, in a row that counts no more
    deleted: str | None = None
    every_s: float = 5.0
    # how often all rows are read, to find those that are gone and those that no version told of
    compare_every_s: float = 3600.0
    # how much later than it says a version may come: a program's clock, a sequence's cache. Open
    # transactions are waited for in any case
    late_s: float = 60.0

    def __str__(self) -> str:
        return f"{self.relation} in {self.database}"

    def why_not(self) -> str | None:
        if not _NAME.fullmatch(self.database):
            return f"database {self.database!r}: use lower-case letters, digits and _"
        if not self.relation.strip():
            return "its relation is empty: name a table or view, SqlSource(…, 'shop.price')"
        if self.every_s <= 0 or self.compare_every_s <= 0 or self.late_s < 0:
            return "every_s and compare_every_s are more than 0 seconds, late_s is 0 or more"
        return None


@dataclass(frozen=True)
class TopicSource:
    """A topic of the same Kafka that somebody else fills. It is only read."""

    topic: str
    debezium: bool = False  # its values are Debezium's envelopes; otherwise each is a row
    # it keeps the last record of each key: what it does not name, when it is read anew, is gone
    compacted: bool = False

    def __str__(self) -> str:
        return f"topic {self.topic}"

    def why_not(self) -> str | None:
        if not _TOPIC.fullmatch(self.topic):
            return f"topic {self.topic!r}: use 1 to 249 letters, digits, dots, _ and -"
        return None


Source = SqlSource | TopicSource
