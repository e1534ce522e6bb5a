"""Keeps the ledger: posts what was told of payloads, and finds those of which nothing was.

A cut says when all must have been told: what enrich had done with, and where the events ended after
that. Once persist has done with those events and all that was told is posted, an earlier payload
without a verdict has got lost on its way. So the difference holds under load, too.
"""

import logging
import threading
import time
from typing import NamedTuple

from confluent_kafka import KafkaException

from clients.postgres import store
from shared.errors import StoreAwayError
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.published import ledger
from shared.published.ledger import Mark, Reached
from shared.settings import Settings
from stream_jobs.ledger.repeat_corrections import RepeatCorrections
from stream_jobs.ledger.tables import Known, LedgerBook, LedgerNews, Partition
from stream_jobs.ledger.topics import LedgerLog
from stream_jobs.supervision.status import StatusReporter

JOB = "ledger"
_log = logging.getLogger(__name__)
_EVERY_S = 1.0
_IDLE_S = 3.0  # to look costs the servers as much as to find something
_AGAIN_AFTER_S = 2.0
_STUCK_AFTER_S = 60.0
_JOURNAL_ROWS_AT_ONCE = 1_000
_MISSING_TOLD_MAX = 5

Places = dict[Partition, int]


class LedgerCut(NamedTuple):
    enriched: Places
    events: Places  # where they ended, after that was known


def run(settings: Settings, stop: threading.Event) -> None:
    """Until `stop` is set, whatever happens to PostgreSQL and Kafka meanwhile."""
    keeper = LedgerKeeper(settings, stop, StatusReporter(settings, JOB))
    while not stop.is_set():
        try:
            keeper.work()
        except StoreAwayError as away:
            keeper.say("waiting", f"PostgreSQL: {away}")
        except KafkaException as error:
            keeper.say("waiting", f"Kafka: {error.args[0].str()}")
        except Exception as error:
            _log.exception("the ledger could not be kept, trying again")
            keeper.say("restarting", f"{type(error).__name__}: {error}")
        stop.wait(_AGAIN_AFTER_S)
    keeper.close()


class LedgerKeeper:
    def __init__(self, settings: Settings, stop: threading.Event, status: StatusReporter) -> None:
        self._url = settings.postgres_url.get_secret_value()
        self._stop = stop
        self._status = status
        self._flow = load_flow(settings.flow)
        self._log = LedgerLog(settings, self._flow)
        self._jobs = ("persist", "fold") if self._flow.entities else ("persist",)
        self._folded = _wholly_folded(self._flow)
        self._cuts: dict[str, LedgerCut] = {}
        self._last: dict[str, object] | None = None
        self._is_idle = False

    def work(self) -> None:
        """Until the stop, or until an error ends the connection."""
        with store.connect(self._url, JOB) as connection:
            book = LedgerBook(connection)
            while not book.take_lead():
                if self._stop.wait(_EVERY_S):
                    return
            self.go_on(book)
            recounts = RepeatCorrections(connection, self._flow)
            while not self._stop.is_set():
                with store.answered_within(connection, _STUCK_AFTER_S):
                    is_behind = self.keep(book)
                    recounts.send()
                    self._last = self._summary(book) | {"recounting": recounts.under_way()}
                self.say("running", "")
                self._stop.wait(0 if is_behind else _IDLE_S if self._is_idle else _EVERY_S)

    def close(self) -> None:
        self._log.close()

    def go_on(self, book: LedgerBook) -> None:
        self._log.go_on_from(book.lanes())

    def keep(self, book: LedgerBook) -> bool:
        """Posts what is there to be posted; True where that was not all."""
        before = book.known()
        # in this order: what a job has done with, it has told of
        progress = {job: self._log.progress(job) for job in self._jobs}
        heard = self._log.hear(self._log.ends_of_lanes())
        journal = book.journal(_JOURNAL_ROWS_AT_ONCE)
        is_behind = not heard.all or len(journal) == _JOURNAL_ROWS_AT_ONCE
        passed: dict[str, LedgerCut] = {}
        if not is_behind:
            for job, cut in [*self._cuts.items()]:
                if all(progress[job].get(at, 0) >= end for at, end in cut.events.items()):
                    passed[job] = self._cuts.pop(job)
        known, marks = self._grown(before, book, passed)
        news = LedgerNews(
            known,
            marks,
            [*(entry for _, entry in journal), *ledger.entries(heard.told)],
            [seq for seq, _ in journal],
            heard.next,
            heard.known_parts,
        )
        book.post(before, news)
        self._is_idle = not news.entries and known == before
        if absent := [job for job in self._jobs if job not in self._cuts]:
            enriched = self._log.progress("enrich")
            for job in absent:
                self._cuts[job] = LedgerCut(enriched, self._log.ends_of_events(job))
        return is_behind

    def _grown(
        self, before: dict[Partition, Known], book: LedgerBook, passed: dict[str, LedgerCut]
    ) -> tuple[dict[Partition, Known], dict[Partition, list[Mark]]]:
        known, marks = {}, {}
        from_now_on = not before and not book.begins_with_the_log()
        for at, ends in self._log.ends_of_payloads().items():
            old = before.get(at)
            if old is None:
                begins = ends if from_now_on else self._log.start_of(at)
                old = Known(begins, Reached(begins, begins, begins))
            begins, by_all, by_fold = old.reached
            if "persist" in passed:
                by_all = max(by_all, passed["persist"].enriched.get(at, 0))
            if "fold" in passed and at[0] in self._folded:
                by_fold = max(by_fold, passed["fold"].enriched.get(at, 0))
            known[at] = Known(ends, Reached(begins, by_all, by_fold), old.mark)
            marks[at] = self._marks(at, old, ends)
        return known, marks

    def _marks(self, at: Partition, old: Known, ends: int) -> list[Mark]:
        def first_at(minute: int) -> int | None:
            return self._log.first_at(at, minute)

        if (ends <= old.ends and old.mark is not None) or ends == old.reached.begins:
            return []
        if old.mark is not None:
            return [*ledger.marks_after(old.mark, first_at)]
        first = ledger.mark_of(old.reached.begins, 0, first_at)
        return [first, *ledger.marks_after(first, first_at)]

    def _summary(self, book: LedgerBook) -> dict[str, object]:
        names = {row.topic: row.stream or row.name for row in self._flow.endpoints}
        endpoints = {
            names.get(topic, topic): ledger.balance(*total)
            for topic, total in book.totals().items()
        }
        is_whole = not any(terms["difference"] for terms in endpoints.values())
        missing = [] if is_whole else book.missing(_MISSING_TOLD_MAX)
        derived = book.derived()
        return {
            "as_of_ms": time.time_ns() // 1_000_000,
            "endpoints": endpoints,
            "derived": {term: derived[term] for term in ledger.ENDS},
            "missing": [str(place) for place in missing],
        }

    def say(self, state: str, detail: str) -> None:
        """The last known numbers stay on the topic, with their time, whatever is away."""
        if self._last is not None:
            self._status.report(state, detail, ledger=self._last)


def _wholly_folded(flow: Flow) -> set[str]:
    """Ingest topics all of whose events are folded: of others fold cannot say what it took."""
    folded = {name for entity in flow.entities for name in entity.reads}
    in_part = {row.topic for row in flow.endpoints if not folded.issuperset(row.emits)}
    return {*flow.ingest_topics} - in_part
