"""Records of a topic that somebody else fills -> the table of master data."""

import logging
from collections.abc import Callable

from confluent_kafka import Message

from clients.kafka.follow import LogFollower
from clients.kafka.records import Partition
from clients.postgres.source_book import Changes, Kept, SourceBook
from clients.postgres.source_table import SourceAwayError
from shared.consumer_groups import SOURCES
from shared.master_data import TopicSource
from shared.master_data.rows import BadRowError, row_from_source
from shared.model import Table
from shared.settings import JobSettings
from shared.timestamps import now_ms
from stream_jobs.master_sources.records import UnreadableError, told_by

_log = logging.getLogger(__name__)
_RECORDS_AT_ONCE = 2_000
_WAIT_S = 0.2


class TopicRows:
    """Its position is the next offset of each partition. It is kept with the rows, so that each
    record counts once."""

    def __init__(
        self,
        settings: JobSettings,
        table: Table,
        source: TopicSource,
        kept: Kept | None,
        is_alive: Callable[[], None],
    ) -> None:
        self._table = table
        self._source = source
        self._is_alive = is_alive
        self._kept = kept
        self._log = LogFollower(settings.kafka, SOURCES, [source.topic])

    def close(self) -> None:
        self._log.close()

    def take_in(self, book: SourceBook) -> int:
        """As of when all is known."""
        begun_ms = now_ms()
        topic = self._source.topic
        known = {(topic, int(number)): at for number, at in self._position().items()}
        self._log.go_on_from(known)
        if not self._log.next:
            raise SourceAwayError("there is no such topic, or it is not to see")
        ends = self._log.ends()
        if self._kept and self._was_cut(known, ends):
            _log.warning("%s is not what was read of it: it is read anew", self._source)
            self._kept = None
            self._log.start_from({})
        if self._kept is None:
            self._read_anew(book, ends, begun_ms)
        else:
            self._go_on(book, ends, self._kept, begun_ms)
        return begun_ms

    def _position(self) -> dict[str, int]:
        return self._kept.position if self._kept else {}

    def _was_cut(self, known: dict[Partition, int], ends: dict[Partition, int]) -> bool:
        """Records are gone that were to be read, or the topic was made again."""
        return any(
            self._log.next.get(at, offset) > offset or offset > ends.get(at, 0)
            for at, offset in known.items()
        )

    def _go_on(
        self, book: SourceBook, ends: dict[Partition, int], kept: Kept, begun_ms: int
    ) -> None:
        while self._log.is_behind(ends):
            changes = Changes()
            self._hear(changes)
            with book.at_once():
                book.keep(changes)
                self._keep_position(book, kept.read_ms, kept.compared_ms)
        self._keep_position(book, begun_ms, kept.compared_ms)

    def _read_anew(self, book: SourceBook, ends: dict[Partition, int], at_ms: int) -> None:
        """All at once, or rows would be for a while what they were long ago."""
        changes = Changes()
        while self._log.is_behind(ends):
            self._hear(changes)
        with book.at_once():
            book.keep(changes)
            if self._source.compacted:
                there = [key for key, row in changes.rows.items() if row is not None]
                book.forget_others({*there, *changes.refused})
            self._keep_position(book, at_ms, at_ms)

    def _keep_position(self, book: SourceBook, read_ms: int, compared_ms: int) -> None:
        position = {str(number): at for (_, number), at in self._log.next.items()}
        self._kept = Kept(position, read_ms, compared_ms)
        book.keep_position(*self._kept)

    def _hear(self, changes: Changes) -> None:
        self._is_alive()
        for message in self._log.take(_RECORDS_AT_ONCE, _WAIT_S):
            self._judge(message, changes)

    def _judge(self, message: Message, changes: Changes) -> None:
        place = f"offset {message.offset()} of partition {message.partition()}"
        key = None
        try:
            told = told_by(
                self._table, message.key(), message.value(), debezium=self._source.debezium
            )
            if told is None:
                return
            key = told.key
            if told.fields is None:
                assert key is not None
                changes.set(key, None)
            else:
                row = row_from_source(self._table, told.fields, key)
                changes.set(row.key, row.fields)
        except UnreadableError as error:
            # one such record for each partition: more would tell nothing new
            shown = error.key or f"(no key, partition {message.partition()})"
            changes.refuse(shown, f"{error} ({place})")
        except BadRowError as error:
            shown = key or f"(no key, partition {message.partition()})"
            changes.refuse(shown, f"{error} ({place})")
