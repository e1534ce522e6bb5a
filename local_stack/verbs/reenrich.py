import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clients.postgres.grants import JOBS
from local_stack.run.options import StateDir, since_ms
from local_stack.run.server_addresses import database, kafka_bootstrap
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, rows_table, say_found
from local_stack.terminal.progress import ProgressLine
from shared.consumer_groups import OPERATOR
from shared.timestamps import to_rfc3339

if TYPE_CHECKING:
    from clients.kafka.read_at import RecordsAt
    from stream_jobs.reenrich import Chosen, Reenrich, Run

_GONE_SHOWN_MAX = 20


def reenrich(
    device: Annotated[str, typer.Option(help="Whose events; with a tenant: TENANT/DEVICE.")],
    begin: Annotated[str, typer.Option("--from", help="Event time: 2h, 1d ago or a time.")],
    end: Annotated[str, typer.Option("--to", help="The first event time that is not in it.")],
    name: Annotated[
        str | None, typer.Option(help="Of the run. Under its name a run goes on after a crash.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent.")] = False,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Send stored events of a device through enrich again, because its master data was wrong.

    Each keeps its id and gets a higher revision. The same name twice sends nothing twice; what has
    begun under it is done to its end.

    Example: ./headrace reenrich --device device-0001 --from 1d --to 1h --dry-run
    """
    from stream_jobs.reenrich import Run

    now_ms = time.time_ns() // 1_000_000
    from_ms, to_ms = since_ms(begin, now_ms, "--from"), since_ms(end, now_ms, "--to")
    if from_ms >= to_ms:
        raise StackError("--from is not before --to", "for example: --from 20m --to 10m")
    run = Run(name or f"{device}-{now_ms}", device, from_ms, to_ms)
    if dry_run:
        found = look(run, state_dir)
    else:
        progress = ProgressLine(f"run {run.name} (--name {run.name} goes on with it)")

        def tell(now: "Run") -> None:
            if output is Output.TABLE and not now.is_over:
                progress.show(f"{now.sent + now.gone} of {now.chosen}")

        found = send(run, tell, state_dir)
        if output is Output.TABLE:
            progress.done(f"{found['sent'] + found['gone']} of {found['chosen']}")
    say_found(found, "\n".join(lines(found)), output)


def lines(found: dict[str, Any]) -> list[str]:
    of = f"events of {found['device']} from {found['from']} to {found['to']}"
    if not found["chosen"]:
        return [f"There are no {of}: nothing is to be corrected."]
    if found["dry_run"]:
        there = found["chosen"] - found["gone"]
        said = [f"{there} of {found['chosen']} {of} would be sent through enrich again."]
    elif found["was_over"]:
        said = [f"This run was over: it has sent {found['sent']} then, and nothing now."]
    else:
        said = [f"{found['sent']} of {found['chosen']} {of} are sent through enrich again."]
    if found["gone"]:
        said += [
            f"{found['gone']} stay as they are: their payloads are gone, for an ingest topic keeps "
            "them for a time only, or an operator has mended a copy of them."
        ]
        said += rows_table(found["payloads_gone"])
    return said


def look(run: "Run", state_dir: Path | None) -> dict[str, Any]:
    from stream_jobs.reenrich import is_still_there

    chosen = 0
    gone: list[Chosen] = []
    with _reaching(state_dir) as (work, origins):
        for rows in work.chosen(run):
            payloads = origins.read([row.origin for row in rows])
            chosen += len(rows)
            gone += [row for row in rows if not is_still_there(row, payloads)]
    return _document(run._replace(chosen=chosen, gone=len(gone)), gone, dry_run=True)


def send(run: "Run", tell: "Callable[[Run], None]", state_dir: Path | None) -> dict[str, Any]:
    from stream_jobs.reenrich import RunExistsError, send_all

    with _reaching(state_dir) as (work, origins):
        try:
            begun = work.begin(run)
        except RunExistsError as error:
            raise StackError(str(error), "give --name another one") from error
        tell(begun)
        over, gone = send_all(work, begun, origins.read, tell)
    return _document(over, gone, was_over=begun.is_over)


@contextmanager
def _reaching(state_dir: Path | None) -> "Iterator[tuple[Reenrich, RecordsAt]]":
    from clients.kafka.read_at import RecordsAt
    from local_stack.machine.settings_check import chosen_flow
    from local_stack.servers.kafka import asking_kafka
    from stream_jobs.reenrich import Reenrich

    topics = [*chosen_flow().posted_topics]
    with asking_kafka(kafka_bootstrap(state_dir)) as kafka:
        origins = RecordsAt(kafka, OPERATOR)
        try:
            with database(state_dir, "reenrich", JOBS) as connection:
                yield Reenrich(connection, topics), origins
        finally:
            origins.close()


def _document(
    run: "Run", gone: "list[Chosen]", *, dry_run: bool = False, was_over: bool = False
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
