from itertools import islice
from typing import Annotated, Any

import typer

from local_stack.run.options import StateDir
from local_stack.run.reach import kafka_bootstrap
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_json, table
from local_stack.terminal.progress import say


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
    from local_stack.operate.refold import rehearse

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
