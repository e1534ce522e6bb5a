from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clients.kafka.records import Record
from local_stack.run.options import StateDir
from local_stack.run.server_addresses import kafka_bootstrap
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_json, table
from local_stack.terminal.progress import say
from shared.consumer_groups import OPERATOR
from shared.events.envelope import EventRecord

if TYPE_CHECKING:
    from shared.events.event_reader import EventReader
    from shared.folding.rehearsal import Rehearsal


def refold(
    entity: Annotated[str, typer.Option(help="Whose fold.")],
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Rehearse it. Only the job itself does it in earnest."),
    ] = False,
    limit: Annotated[int, typer.Option(min=0, help="How many changes are shown.")] = 20,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Rehearse the fold of this checkout beside the live one: which entities would change, and how.

    It reads the states and the event log from Kafka. The job itself notices a changed fold when it
    is started the next time, and folds the whole log again.

    Example: ./headrace refold --entity device --dry-run
    """
    if not dry_run:
        raise StackError(
            "a refold in earnest is the job's own: it notices a changed fold at its next start",
            "add --dry-run to see what would change; then ./headrace stop, and ./headrace up",
        )
    rehearsal, fingerprint = rehearse(kafka_bootstrap(state_dir), entity)
    changes = list(rehearsal.changes())
    same_code = rehearsal.folds.keys() <= {fingerprint}
    found: dict[str, Any] = {
        "entity": entity,
        "entities": rehearsal.entities,
        "events": rehearsal.events,
        "parked": rehearsal.parked,
        "changed": len(changes),
        "live_fold": sorted(rehearsal.folds),
        "new_fold": fingerprint,
    }
    if output is Output.JSON:
        shown = [change._asdict() for change in islice(changes, limit)]
        say_json({**found, "changes": shown})
        return
    rows = [
        (change.id, name, live, new)
        for change in islice(changes, limit)
        for name, (live, new) in change.fields.items()
    ]
    if rows:
        say("\n".join(table(("id", "field", "live", "new"), rows)))
    if len(changes) > limit:
        say(f"… and {len(changes) - limit} more: --limit shows them")
    say(
        f"{len(changes)} of {rehearsal.entities} would change, by {rehearsal.events} events; "
        f"{rehearsal.parked} of these the new fold would park."
    )
    if same_code:
        say("The live fold is the one of this checkout: nothing would be switched.")
    else:
        say("Nothing was switched. The next start does it: ./headrace stop, then ./headrace up")


def rehearse(bootstrap: str, name: str) -> tuple["Rehearsal", str]:
    """And the fingerprint of the fold that was rehearsed."""
    from clients.kafka.read_range import WholeTopics
    from local_stack.machine.settings_check import chosen_flow
    from local_stack.servers.kafka import asking_kafka
    from shared.events.event_reader import EventReader
    from shared.folding.applier import Applier
    from shared.folding.code_fingerprint import entity_fingerprint
    from shared.folding.rehearsal import Rehearsal
    from shared.settings import Settings

    flow = chosen_flow()
    entity = next((row for row in flow.entities if row.name == name), None)
    if entity is None:
        known = ", ".join(row.name for row in flow.entities)
        raise StackError(f"no entity is called {name!r}", f"there are: {known}")
    types = {row.name: row for row in flow.event_types}
    topics = [*dict.fromkeys(types[event_type].topic for event_type in entity.reads)]
    ring_size = Settings().id_ring_size
    rehearsal = Rehearsal(Applier(entity, ring_size, types), topics)
    with asking_kafka(bootstrap) as kafka:
        _take_states(WholeTopics(kafka, OPERATOR, [entity.topic]).read(), rehearsal)
        events = EventReader.of(flow)
        _take_events(WholeTopics(kafka, OPERATOR, topics).read(), rehearsal.event, events)
        if rehearsal.asks:
            _take_events(WholeTopics(kafka, OPERATOR, topics).read(), rehearsal.once_more, events)
    return rehearsal, entity_fingerprint(entity)


def _take_states(records: Iterable[Record], rehearsal: "Rehearsal") -> None:
    from shared.folding.snapshot import decode_with_fold

    for record in records:
        entity_id = (record.key or b"").decode(errors="replace")
        try:
            found = (None, "") if record.value is None else decode_with_fold(record.value)
        except (ValueError, KeyError, TypeError):
            continue  # nobody's snapshot
        rehearsal.live(entity_id, *found)


def _take_events(
    records: Iterable[Record], take: Callable[[EventRecord], None], events: "EventReader"
) -> None:
    from shared.events.event_reader import NoEvent

    for record in records:
        try:
            event = events.read(record.position, record.key, record.value or b"")
        except NoEvent:
            continue  # fold parked it
        take(event)
