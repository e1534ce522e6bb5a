"""The ledger in PostgreSQL: what the journal tells is posted to pages and counted by minute, in one
transaction. Posted twice, it counts once."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from clients.postgres.store import Connection, judged_errors, save
from shared.events.envelope import Position
from shared.published import ledger
from shared.published.ledger import COUNTED, PAGE_PLACES, Counts, Entry, Mark, Reached

Partition = tuple[str, int]

_ONE_KEEPER_AT_A_TIME = 4_729_018_804
_EMPTY_PAGE = bytes(PAGE_PLACES)
_ADDED = ", ".join(f"{term} = kept.{term} + new.{term}" for term in COUNTED)
_COLUMNS = ", ".join(COUNTED)
_SUMS = ", ".join(f"coalesce(sum({term}), 0)::bigint" for term in COUNTED)
_ARRAYS = ", ".join("%b::bigint[]" for _ in COUNTED)

_ADD_TO_MINUTES = f"""
    UPDATE headrace.ledger_minute AS kept SET {_ADDED}
    FROM unnest(%b::text[], %b::int[], %b::bigint[], {_ARRAYS})
        AS new (topic, partition, first, {_COLUMNS})
    WHERE (kept.topic, kept.partition, kept.first) = (new.topic, new.partition, new.first)
"""
_ADD_TO_PARTITIONS = f"""
    INSERT INTO headrace.ledger_partition AS kept (topic, partition, {_COLUMNS})
    SELECT topic, partition, {_COLUMNS}
    FROM unnest(%b::text[], %b::int[], {_ARRAYS}) AS new (topic, partition, {_COLUMNS})
    ON CONFLICT (topic, partition) DO UPDATE SET
        {_ADDED.replace("new.", "excluded.")}
"""
_SAVE_PAGES = """
    INSERT INTO headrace.ledger_page (topic, partition, page, verdicts)
    SELECT * FROM unnest(%b::text[], %b::int[], %b::bigint[], %b::bytea[])
    ON CONFLICT (topic, partition, page) DO UPDATE SET verdicts = excluded.verdicts
"""
_SAVE_MINUTES = """
    INSERT INTO headrace.ledger_minute (topic, partition, minute, first, received)
    SELECT * FROM unnest(%b::text[], %b::int[], %b::bigint[], %b::bigint[], %b::bigint[])
    ON CONFLICT (topic, partition, first) DO UPDATE SET received = excluded.received
"""
_SAVE_PARTITIONS = """
    INSERT INTO headrace.ledger_partition
        (topic, partition, of_payloads, ends, begins, by_all, by_fold)
    SELECT * FROM unnest(%b::text[], %b::int[], %b::bool[],
                         %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[])
    ON CONFLICT (topic, partition) DO UPDATE SET
        of_payloads = excluded.of_payloads, ends = excluded.ends,
        begins = excluded.begins, by_all = excluded.by_all, by_fold = excluded.by_fold
"""
# persist may not have come to them yet
_KNOWN_PARTS = """
    INSERT INTO headrace.repeat (topic, partition, place, event_id, is_known)
    SELECT DISTINCT *, true FROM unnest(%b::text[], %b::int[], %b::bigint[], %b::text[])
    ON CONFLICT (topic, partition, place, event_id) DO UPDATE SET is_known = true
"""
_SAVE_LANES = """
    INSERT INTO headrace.ledger_lane (topic, partition, next)
    SELECT * FROM unnest(%b::text[], %b::int[], %b::bigint[])
    ON CONFLICT (topic, partition) DO UPDATE SET next = excluded.next
"""


class Total(NamedTuple):
    received: int
    counts: Counts

    @classmethod
    def of(cls, received: int, *counts: int) -> "Total":
        return cls(received, dict(zip(COUNTED, counts, strict=True)))

    def plus(self, other: "Total") -> "Total":
        counts = {term: self.counts[term] + other.counts[term] for term in COUNTED}
        return Total(self.received + other.received, counts)


class Known(NamedTuple):
    """What the ledger knows of a partition of an ingest topic."""

    ends: int
    reached: Reached
    mark: Mark | None = None  # of the minute that is not over


class LedgerNews(NamedTuple):
    """What has been seen since."""

    known: Mapping[Partition, Known]  # all of them
    marks: Mapping[Partition, Sequence[Mark]]  # the minutes that have begun since
    entries: Sequence[Entry] = ()
    journal_rows: Sequence[int] = ()
    lanes: Mapping[Partition, int] = {}
    known_parts: Sequence[tuple[Position, str]] = ()


class LedgerBook:
    """Every method raises StoreAwayError where PostgreSQL does not answer."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def take_lead(self) -> bool:
        """True for one keeper at a time, until its connection ends."""
        return self._rows("SELECT pg_try_advisory_lock(%s)", _ONE_KEEPER_AT_A_TIME) == [(True,)]

    def begins_with_the_log(self) -> bool:
        """Or with what comes from now on, because rows were there before the ledger."""
        return self._rows("SELECT whole_log FROM headrace.ledger_state") == [(True,)]

    def known(self) -> dict[Partition, Known]:
        query = """
            SELECT topic, partition, begins, ends, by_all, by_fold, minute, first
            FROM headrace.ledger_partition LEFT JOIN LATERAL (
                SELECT minute, first FROM headrace.ledger_minute AS m
                WHERE (m.topic, m.partition) =
                      (ledger_partition.topic, ledger_partition.partition)
                ORDER BY first DESC LIMIT 1
            ) AS newest ON true WHERE of_payloads"""
        return {
            (topic, partition): Known(
                ends,
                Reached(begins, by_all, by_fold),
                None if minute is None else Mark(minute, first),
            )
            for topic, partition, begins, ends, by_all, by_fold, minute, first in self._rows(query)
        }

    def lanes(self) -> dict[Partition, int]:
        rows = self._rows("SELECT topic, partition, next FROM headrace.ledger_lane")
        return {(topic, partition): offset for topic, partition, offset in rows}

    def journal(self, limit: int) -> list[tuple[int, Entry]]:
        query = """SELECT seq, topic, partition, first, verdicts
                   FROM headrace.ledger_journal ORDER BY seq LIMIT %s"""
        return [(seq, Entry(*entry)) for seq, *entry in self._rows(query, limit)]

    def post(self, before: Mapping[Partition, Known], news: LedgerNews) -> None:
        with judged_errors(), self._connection.transaction():
            self._save_partitions(before, news)
            self._post_pages(before, news)
            self._save(_KNOWN_PARTS, [(*place, event) for place, event in news.known_parts])
            self._save(_SAVE_LANES, [(*lane, offset) for lane, offset in news.lanes.items()])
            self._connection.execute(
                "DELETE FROM headrace.ledger_journal WHERE seq = ANY(%s)", [[*news.journal_rows]]
            )
            self._connection.execute("UPDATE headrace.ledger_state SET as_of = clock_timestamp()")

    def totals(self) -> dict[str, Total]:
        """The totals of payloads, by their topic."""
        rows = self._rows(f"""
            SELECT topic, sum(ends - begins)::bigint, {_SUMS}
            FROM headrace.ledger_partition WHERE of_payloads GROUP BY topic ORDER BY topic""")
        return {topic: Total.of(*numbers) for topic, *numbers in rows}

    def derived(self) -> Counts:
        """The counts of events that came from no payload."""
        (row,) = self._rows(f"""
            SELECT 0, {_SUMS} FROM headrace.ledger_partition WHERE NOT of_payloads""")
        return Total.of(*row).counts

    def minutes(self, since: int) -> list[tuple[str, int, Total]]:
        """Topic and minute, and what came then."""
        rows = self._rows(
            f"""SELECT topic, minute, sum(received)::bigint, {_SUMS}
                FROM headrace.ledger_minute WHERE minute >= %s
                GROUP BY topic, minute ORDER BY minute, topic""",
            since,
        )
        return [(topic, minute, Total.of(*numbers)) for topic, minute, *numbers in rows]

    def as_of_ms(self) -> int | None:
        """When it was last kept; None: never."""
        query = "SELECT (extract(epoch FROM as_of) * 1000)::bigint FROM headrace.ledger_state"
        return next((time_ms for (time_ms,) in self._rows(query)), None)

    def missing(self, limit: int) -> list[Position]:
        """Payloads that have no end, though they should."""
        pages = self._rows(
            """SELECT DISTINCT page.topic, page.partition, page.page, page.verdicts
               FROM headrace.ledger_minute AS m JOIN headrace.ledger_page AS page
                 ON (page.topic, page.partition) = (m.topic, m.partition)
                AND page.page BETWEEN m.first / %s AND (m.first + m.received) / %s
               WHERE m.difference > 0
               ORDER BY 1, 2, 3 LIMIT %s""",
            *(PAGE_PLACES, PAGE_PLACES, limit),
        )
        found = [
            Position(topic, partition, page * PAGE_PLACES + at)
            for topic, partition, page, verdicts in pages
            for at, verdict in enumerate(verdicts)
            if verdict == ledger.Verdict.MISSING
        ]
        return found[:limit]

    def _save_partitions(self, before: Mapping[Partition, Known], news: LedgerNews) -> None:
        changed = {at: known for at, known in news.known.items() if known != before.get(at)}
        self._save(
            _SAVE_PARTITIONS,
            [(*at, True, known.ends, *known.reached) for at, known in changed.items()],
        )
        minutes = []
        for at, known in changed.items():
            marks = [*([known.mark] if known.mark else []), *news.marks.get(at, ())]
            minutes += [
                (*at, mark.minute, mark.first, end - begin)
                for mark, begin, end in ledger.spans(marks, known.reached.begins, known.ends)
            ]
        self._save(_SAVE_MINUTES, minutes)

    def _post_pages(self, before: Mapping[Partition, Known], news: LedgerNews) -> None:
        pages, of_minutes, of_partitions = [], [], []
        told = _by_page(before, news)
        stored = self._pages([*told])
        for place, entries in told.items():
            topic, partition, number = place
            at, old = (topic, partition), stored.get(place, _EMPTY_PAGE)
            known = news.known.get(at)
            page = ledger.post(old, number, entries, known.reached if known else Reached())
            if page == old:
                continue
            pages.append((*place, page))
            changed = ledger.changed_places(old, page, number)
            marks = self._marks(at, changed) if known else [Mark(0, 0)]
            for mark, counts in ledger.changes(old, page, number, marks):
                of_partitions.append((at, counts))
                if known:
                    of_minutes.append(((*at, mark.first), counts))
        self._save(_SAVE_PAGES, pages)
        self._save(_ADD_TO_MINUTES, _summed(of_minutes))
        self._save(_ADD_TO_PARTITIONS, _summed(of_partitions))

    def _pages(self, places: list[tuple[str, int, int]]) -> dict[tuple[str, int, int], bytes]:
        if not places:
            return {}
        rows = self._rows(
            """SELECT topic, partition, page, verdicts FROM headrace.ledger_page
               JOIN unnest(%b::text[], %b::int[], %b::bigint[]) AS wanted (topic, partition, page)
               USING (topic, partition, page)""",
            *map(list, zip(*places, strict=True)),
        )
        return {(topic, partition, page): verdicts for topic, partition, page, verdicts in rows}

    def _marks(self, at: Partition, places: range) -> list[Mark]:
        rows = self._rows(
            """WITH own AS (SELECT minute, first FROM headrace.ledger_minute
                            WHERE (topic, partition) = (%s, %s) AND first < %s)
               SELECT minute, first FROM own
               WHERE first >= (SELECT coalesce(max(first), 0) FROM own WHERE first <= %s)
               ORDER BY first""",
            *(*at, places.stop, places.start),
        )
        return [Mark(*row) for row in rows]

    def _rows(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        with judged_errors():
            return self._connection.execute(query.encode(), arguments).fetchall()

    def _save(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        save(self._connection, statement, rows)


def _by_page(
    before: Mapping[Partition, Known], news: LedgerNews
) -> dict[tuple[str, int, int], list[Entry]]:
    """What is told, and the pages where it now counts that nothing is told."""
    by_page: dict[tuple[str, int, int], list[Entry]] = defaultdict(list)
    for entry in news.entries:
        by_page[entry.topic, entry.partition, entry.first // PAGE_PLACES].append(entry)
    for at, known in news.known.items():
        begins = known.reached.begins
        old = before[at].reached if at in before else Reached(begins, begins, begins)
        for reached_before, reached in zip(old, known.reached, strict=True):
            for page in range(reached_before // PAGE_PLACES, -(-reached // PAGE_PLACES)):
                by_page.setdefault((*at, page), [])
    return by_page


def _summed(
    changes: Iterable[tuple[tuple[Any, ...], ledger.Counts]],
) -> list[tuple[Any, ...]]:
    sums: dict[tuple[Any, ...], list[int]] = {}
    for key, counts in changes:
        known = sums.setdefault(key, [0] * len(COUNTED))
        for place, term in enumerate(COUNTED):
            known[place] += counts[term]
    return [(*key, *sums[key]) for key in sorted(sums)]
