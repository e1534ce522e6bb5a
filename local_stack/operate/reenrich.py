"""Corrections of a running stack's events, as the command line asks for them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from clients.kafka.read_at import RecordsAt
from clients.postgres.grants import JOBS
from local_stack.machine.settings_check import chosen_flow
from local_stack.run.reach import database, kafka_bootstrap
from local_stack.terminal.errors import LOOK, StackError
from shared.consumer_groups import OPERATOR
from shared.settings import Settings
from shared.timestamps import to_rfc3339
from stream_jobs.reenrich import Chosen, Reenrich, Run, RunExistsError, is_still_there, send_all

_GONE_SHOWN_MAX = 20


def look(run: Run, state_dir: Path | None) -> dict[str, Any]:
    chosen = 0
    gone: list[Chosen] = []
    with _reaching(state_dir) as (work, origins):
        for rows in work.chosen(run):
            payloads = origins.read([row.origin for row in rows])
            chosen += len(rows)
            gone += [row for row in rows if not is_still_there(row, payloads)]
    return _document(run._replace(chosen=chosen, gone=len(gone)), gone, dry_run=True)


def send(run: Run, tell: Callable[[Run], None], state_dir: Path | None) -> dict[str, Any]:
    with _reaching(state_dir) as (work, origins):
        try:
            begun = work.begin(run)
        except RunExistsError as error:
            raise StackError(str(error), "give --name another one") from error
        tell(begun)
        over, gone = send_all(work, begun, origins.read, tell)
    return _document(over, gone, was_over=begun.is_over)


@contextmanager
def _reaching(state_dir: Path | None) -> Iterator[tuple[Reenrich, RecordsAt]]:
    bootstrap = kafka_bootstrap(state_dir)
    topics = [*chosen_flow().ingest_topics]
    origins = RecordsAt(Settings(kafka_bootstrap=bootstrap).kafka, OPERATOR)
    try:
        with database(state_dir, "reenrich", JOBS) as connection:
            yield Reenrich(connection, topics), origins
    except KafkaException as error:
        reason = error.args[0].str()
        raise StackError(f"Kafka at {bootstrap} does not answer: {reason}", LOOK) from error
    finally:
        origins.close()


def _document(
    run: Run, gone: list[Chosen], *, dry_run: bool = False, was_over: bool = False
) -> dict[str, Any]:
    return {
        "name": run.name,
        "device": run.entity_id,
        "from": to_rfc3339(run.from_ms),
        "to": to_rfc3339(run.to_ms),
        "dry_run": dry_run,
        "was_over": was_over,
        "chosen": run.chosen,
        "sent": run.sent,
        "gone": run.gone,
        "payloads_gone": [
            {"event_id": row.event_id, "origin": str(row.origin)} for row in gone[:_GONE_SHOWN_MAX]
        ],
    }
