"""state topics -> documents of a search index, each under its entity's id.

Any batch may run again, in part or whole: a document takes only what stands later in the log than
what it has. While the server is away a batch waits, and runs again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import pyarrow as pa
from confluent_kafka import Message
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from clients.kafka.messages import position_of
from clients.search.server import SearchServer
from shared.errors import IndexGoneError, NoServerError, StoreAwayError
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.search.access import SearchAccess
from shared.settings import JobSettings
from stream_jobs.guards.checkpoint_folder import checkpoint_of, remove
from stream_jobs.guards.lease import check_lease
from stream_jobs.guards.topic_identity import topic_ids
from stream_jobs.kafka_io.log_source import SELDOM_MS, read_logs
from stream_jobs.search.document import Change, change_of
from stream_jobs.search.indexes import prepare
from stream_jobs.supervision.status import Report
from stream_jobs.supervision.until_stored import (
    sleep_in_query,
    stop_as_spark_knows_it,
    write_until_stored,
)

STAGE = "search"
_CHANGES_MAX, _BYTES_MAX = 2_000, 5 * 1024 * 1024
_OUTCOME_DDL = "refused long, why string, gone boolean, away string"
_OUTCOME = pa.schema(
    [("refused", pa.int64()), ("why", pa.string()), ("gone", pa.bool_()), ("away", pa.string())]
)


@dataclass(frozen=True)
class SearchTask:
    """What a worker process needs to know; it keeps its connections from batch to batch."""

    flow: str
    access: SearchAccess

    def __call__(self, read: Iterator[list[Message]]) -> Iterator[pa.RecordBatch]:
        refused, gone, away = list[str](), False, None
        try:
            for changes in _chunks(read, self.flow):
                check_lease(STAGE)
                whys, gone = _write(_server(self.access), changes)
                refused += whys
                if gone:
                    break
        except StoreAwayError as error:
            away = str(error)  # told, not raised: a failed task would end the query
        why = refused[0] if refused else None
        told = {"refused": len(refused), "why": why, "gone": gone, "away": away}
        yield pa.RecordBatch.from_pylist([told], _OUTCOME)


def _write(server: SearchServer, changes: Sequence[Change]) -> tuple[list[str], bool]:
    """Why some of them stand there without their state, and whether an index is gone."""
    answers = server.bulk([change.lines() for change in changes])
    if not answers.refused or answers.is_gone:
        return [], answers.is_gone
    bare = [changes[number].without_its_state(why) for number, why in answers.refused.items()]
    again = server.bulk([change.lines() for change in bare])
    for why in again.refused.values():
        raise StoreAwayError(f"not even without its state does it take a document: {why}")
    whys = [f"{changes[number].id}: {why}" for number, why in answers.refused.items()]
    return whys, again.is_gone


def _chunks(read: Iterator[list[Message]], flow: str) -> Iterator[list[Change]]:
    """The changes in pieces: of those that come together the last one of each document."""
    of_topic = _indexes(flow)
    for messages in read:
        latest: dict[tuple[str, str], Change] = {}
        size = 0
        for message in messages:
            place, (_, at_ms) = position_of(message), message.timestamp()
            for index, entity in of_topic[place.topic]:
                its = index, entity, message.key(), message.value(), place.offset, at_ms
                if change := change_of(*its):
                    latest[index, change.id] = change
                    size += len(message.value() or b"")
            if len(latest) >= _CHANGES_MAX or size >= _BYTES_MAX:
                yield list(latest.values())
                latest, size = {}, 0
        if latest:
            yield list(latest.values())


@cache
def _indexes(flow: str) -> dict[str, list[tuple[str, str]]]:
    """What is written of each topic, and whose states these are."""
    its_flow = load_flow(flow)
    found: dict[str, list[tuple[str, str]]] = {}
    for topic, entity in its_flow.state_by_topic.items():
        rows = (row for row in its_flow.search_indexes if row.of == entity)
        found[topic] = [(row.alias, entity) for row in rows]
    return found


@cache
def _server(access: SearchAccess) -> SearchServer:
    return SearchServer(access)


def build(spark: SparkSession, settings: JobSettings, flow: Flow, say: Report) -> DataStreamWriter:
    access, topics = settings.search, flow.job(STAGE).ignited_by
    if access is None:
        raise NoServerError("HEADRACE_SEARCH_URL names no search server for the flow's index")
    server, checkpoint = SearchServer(access), checkpoint_of(settings, STAGE)
    ids = topic_ids(settings, topics)
    prepare(server, flow, ids, lambda: remove(checkpoint))
    refused, why = 0, ""

    def write(frame: DataFrame) -> str | None:
        nonlocal refused, why
        rows = frame.collect()
        if any(row["gone"] for row in rows):
            raise IndexGoneError("an index was deleted: it is made anew, of all states")
        for row in rows:
            refused, why = refused + row["refused"], row["why"] or why
        return next((row["away"] for row in rows if row["away"] is not None), None)

    def write_batch(frame: DataFrame, _batch_id: int) -> None:
        with stop_as_spark_knows_it():
            write_until_stored(
                lambda: write(frame),
                server.trouble,
                lambda breaker: say("waiting", f"the search server: {breaker.reason}"),
                partial(sleep_in_query, spark),
            )
        some = f"{refused} documents stand there without their state, such as {why}"
        say("running", some if refused else "")

    task = SearchTask(settings.flow, access)
    return (
        read_logs(spark, settings, STAGE, topics, task, _OUTCOME_DDL, at_most_every_ms=SELDOM_MS)
        .writeStream.queryName(STAGE)
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(write_batch)
    )
