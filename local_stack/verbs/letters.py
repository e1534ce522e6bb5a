"""`./headrace letters`: what was parked, why, and its way back or out."""

import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from desk.letters.selection import GROUPED_BY, STATUSES, Selection
from local_stack.letters.letter_bytes import File, Through, change
from local_stack.letters.which_letters import chosen, filtered
from local_stack.run.desks import letters_desk
from local_stack.run.options import StateDir
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import (
    Output,
    OutputOption,
    record_lines,
    rows_table,
    say_found,
    say_json,
    say_rows,
)
from local_stack.terminal.printable import printable
from local_stack.terminal.progress import say
from local_stack.terminal.user import user_name

if TYPE_CHECKING:
    from desk.letters.redrive import Sent
    from desk.letters.redrive_store import Redrive
    from desk.letters.service import Desk
    from local_stack.remote.letters import RemoteLetters

app = typer.Typer(
    no_args_is_help=True,
    help="""Dead letters: find, look, try, send on again, discard.

    Example: ./headrace letters list --by cause
    """,
)

_BRIEF = ("id", "cause", "stage", "endpoint", "entity_id", "times", "parked_at", "status")
_STANDSTILL_S = 15.0
_REFUSALS_SHOWN_MAX = 20
_LOOK_EVERY_S = 0.5


@app.command("list")
@filtered
def list_(
    meant: Selection,
    status: Annotated[
        str, typer.Option(help="parked, redriven, done, discarded or any.")
    ] = "parked",
    by: Annotated[
        str | None,
        typer.Option(help="Count them by cause, stage, endpoint, entity_id, hour …"),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 1000,
    after: Annotated[str | None, typer.Option(help="Go on after: parked_at and id.")] = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """The letters that are parked, the newest first; or their counts.

    Example: ./headrace letters list --cause not_json --limit 5
    """
    if status not in (*STATUSES, "any"):
        raise StackError(f"there is no status {status!r}", f"one of {', '.join(STATUSES)}, any")
    if by is not None and by not in GROUPED_BY:
        raise StackError(f"letters are not counted by {by!r}", f"one of {', '.join(GROUPED_BY)}")
    meant = meant._replace(status=None if status == "any" else status)
    with letters_desk(state_dir) as desk:
        if by is not None:
            say_rows(desk.book.groups(by, meant, limit), output, "There is no such letter.")
            return
        up_to = meant.up_to or desk.book.mark()
        rows, following = desk.book.page(meant, limit, after)
    if output is Output.TABLE:
        rows = [{name: row[name] for name in _BRIEF} for row in rows]
    say_rows(rows, output, "There is no such letter.")
    if following and output is Output.TABLE:
        say(f'\nThere are more: --after "{following}"')
    if rows and status == "parked" and output is Output.TABLE:
        say(f"\nredrive and discard mean no later ones with: --up-to {up_to}")


@app.command()
def show(letter: str, output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """A letter with its bytes, headers and attempts.

    Example: ./headrace letters show 5c0d6a1e-…
    """
    with letters_desk(state_dir) as desk:
        found = desk.show(letter)
    if output is Output.JSON:
        say_json(found)
        return
    attempts, headers = found.pop("attempts"), found.pop("headers")
    shown, width = found.pop("payload_bytes"), max(map(len, found))
    said = [f"{name:<{width}}  {printable(str(value))}" for name, value in found.items()]
    said += ["", *rows_table(attempts)]
    say("\n".join([*said, *record_lines(headers, shown)]))


@app.command("try")
def try_(
    letter: str,
    file: File = None,
    through: Through = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """What would become of a letter, as it is or with other bytes. Nothing is written.

    Example: ./headrace letters try 5c0d6a1e-… --file mended.json
    """
    with letters_desk(state_dir) as desk:
        trial = desk.try_again(letter, change(file, through)).told()
    if output is Output.JSON:
        say_json(trial)
        return
    said = {
        "event": "it would become this event:",
        "dropped": f"it would be dropped on purpose: {trial['cause']}: {trial['detail']}",
        "row": "it would be stored:",
        "parked": f"it would be parked again: {trial['cause']}: {trial['detail']}",
        "waits": f"it would wait: {trial['cause']}: {trial['detail']}",
        "refused": f"it cannot be sent on again: {trial['detail']}",
    }
    say(printable(said[trial["outcome"]]))
    if trial["event"] is not None:
        say_json(trial["event"])
    for state in trial["states"]:
        why = f" ({state['detail']})" if state["detail"] else ""
        say(printable(f"{state['entity']} {state['id']}: {state['outcome']}{why}"))
        if state["outcome"] == "changes":
            say_json(state["after"])


@app.command()
@chosen
def redrive(
    meant: Selection,
    file: File = None,
    through: Through = None,
    rate: Annotated[float, typer.Option(min=0.1, help="Letters a second at most.")] = 500.0,
    wait: Annotated[bool, typer.Option(help="Until it is done.")] = True,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Send letters on again, each to the stage that could not do it.

    Example: ./headrace letters redrive --cause not_json --rate 100
    """
    changed = change(file, through)
    if file is not None and len(meant.ids) != 1:
        raise StackError("--file is for one letter", "name its id, and nothing else")
    with letters_desk(state_dir) as desk:
        if through is not None and changed is not None:
            told = _told(desk.redrive_changed(meant, user_name(), changed, through, rate))
        elif 0 < len(meant.ids) <= 100:
            told = _told([desk.redrive(meant.ids, user_name(), changed)])
        else:
            begun = desk.redrives.begin(meant, rate, user_name())
            told = (_wait_for(desk, begun) if wait else begun).told
    if output is Output.JSON:
        say_json(told)
        return
    say(f"{told['sent']} sent on, {told['refused']} refused")
    for letter, why in islice(told.get("refusals", {}).items(), _REFUSALS_SHOWN_MAX):
        say(f"  {printable(letter)}: {printable(why)}")
    if told.get("refusal"):
        say(f"  the last refusal: {printable(told['refusal'])}")
    if told.get("status", "done") != "done":
        say(f"redrive {told['id']} is {told['status']}: ./headrace letters redrives")


@app.command()
def redrives(output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """Redrives of many letters, and how far they have come.

    Example: ./headrace letters redrives
    """
    with letters_desk(state_dir) as desk:
        rows = [one.told for one in desk.redrives.latest()]
    say_rows(rows, output, "There was none yet.")


@app.command()
def stop(number: int, state_dir: StateDir = None) -> None:
    """Stop a redrive of many letters; what was sent stays sent.

    Example: ./headrace letters stop 3
    """
    _change(number, "stopped", state_dir)


@app.command()
def resume(number: int, state_dir: StateDir = None) -> None:
    """Let a redrive go on where it was stopped.

    Example: ./headrace letters resume 3
    """
    _change(number, "running", state_dir)


@app.command()
@chosen
def discard(
    meant: Selection,
    reason: Annotated[str, typer.Option(help="Why; it stands in the audit.")],
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Give letters up for good. The ledger counts them as discarded.

    Example: ./headrace letters discard 5c0d6a1e-… --reason "a test device"
    """
    if not reason.strip():
        raise StackError("a reason is needed", "say it with --reason")
    with letters_desk(state_dir) as desk:
        count = desk.book.discard(meant, user_name(), reason)
    say_found(
        {"discarded": count}, f"{count} discarded" if count else "None of these is parked.", output
    )


@app.command()
def audit(
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Who did what, the newest first.

    Example: ./headrace letters audit --limit 5
    """
    with letters_desk(state_dir) as desk:
        rows = desk.book.audit(limit)
    say_rows(rows, output, "Nothing was done yet.")


def _told(pieces: Iterable["Sent"]) -> dict[str, Any]:
    sent, refusals = 0, dict[str, str]()
    for piece in pieces:
        sent += len(piece.ids)
        refusals |= piece.refusals
    return {"sent": sent, "refused": len(refusals), "refusals": refusals}


def _change(number: int, status: str, state_dir: Path | None) -> None:
    with letters_desk(state_dir) as desk:
        changed = desk.redrives.change(number, status, user_name())
    if changed is None:
        raise StackError(
            f"there is no redrive {number} that is not done", "./headrace letters redrives"
        )
    say(f"redrive {number} is {status}: {changed.sent} of {changed.letters} sent on")


def _wait_for(desk: "Desk | RemoteLetters", redrive: "Redrive") -> "Redrive":
    """The desk's own process works on it: this terminal may be closed."""
    seen, moved_s = redrive, time.monotonic()
    while redrive.status == "running":
        time.sleep(_LOOK_EVERY_S)
        found = desk.redrives.find(redrive.id)
        assert found is not None
        redrive = found
        if redrive != seen:
            seen, moved_s = redrive, time.monotonic()
        elif time.monotonic() - moved_s > _STANDSTILL_S:
            raise StackError(
                f"redrive {redrive.id} does not move: {redrive.sent} of {redrive.letters} sent on",
                "is the desk at work? ./headrace status; it goes on by itself",
            )
    return redrive
