"""`./headrace hooks`: who gets events by HTTP."""

import time
from typing import Annotated, Any, Literal

import typer

from desk.letters.selection import Selection
from local_stack.run.desks import hooks_desk
from local_stack.run.options import StateDir, since_ms
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_found, say_rows
from local_stack.terminal.progress import say
from local_stack.terminal.user import user_name
from shared.timestamps import now_ms, to_rfc3339

_TEST_S = 45.0
_LOG_MAX = 1_000_000


app = typer.Typer(
    no_args_is_help=True,
    help="""Webhooks: add, list, show, pause, resume, rotate, test, log, replay, delete.

    Example: ./headrace hooks add alarms https://example.org/alarms --type reading
    """,
)

Secret = Annotated[str | None, typer.Option(help="Your own, whsec_…; without it, a new one.")]


@app.command()
def add(
    name: str,
    url: str,
    of: Annotated[
        Literal["events", "completions", "states"],
        typer.Option(help="Completions: once its row is there. States: each that is new."),
    ] = "events",
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help="An event type; of states an entity; without it, all."),
    ] = None,
    entities: Annotated[
        list[str] | None, typer.Option("--entity", help="An entity id; without it, all.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Of this tenant alone.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="On the data, or the state: 'value > 30'.")
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Option("--field", help="Of the data, or the state; without it, all."),
    ] = None,
    shape: Annotated[
        Literal["structured", "binary"], typer.Option(help="Of CloudEvents.")
    ] = "structured",
    no_order: Annotated[
        bool, typer.Option("--no-order", help="One that fails holds up no other of its entity.")
    ] = False,
    at_most_once: Annotated[
        bool, typer.Option("--at-most-once", help="Never twice: what fails is not tried again.")
    ] = False,
    batch: Annotated[int, typer.Option(help="How many events may come in one request.")] = 1,
    concurrency: Annotated[
        int, typer.Option(help="How many requests at once; each state partition may have one.")
    ] = 16,
    per_s: Annotated[float | None, typer.Option(help="How many a second, at most.")] = None,
    every_s: Annotated[
        float | None, typer.Option(min=0.1, help="Or: one in so many seconds, at most.")
    ] = None,
    timeout_s: Annotated[float, typer.Option(help="How long an answer may take.")] = 15.0,
    days: Annotated[float, typer.Option(help="How long one is tried before it is parked.")] = 3.0,
    secret: Secret = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Add one, and print its secret: it is shown once. It gets what comes from now on.

    Example: ./headrace hooks add alarms https://example.org/in --type reading --where 'value > 30'

    Example: ./headrace hooks add ops mailto:ops@example.org --batch 100 --every-s 900
    """
    if per_s is not None and every_s is not None:
        raise StackError("--per-s and --every-s say the same", "leave out one of them")
    chosen = {
        "url": url,
        "of": of,
        "types": types or (),
        "entities": entities or (),
        "tenant": tenant,
        "where": where or (),
        "fields": fields or (),
        "shape": shape,
        "order": "none" if no_order else "per entity",
        "delivery": "at most once" if at_most_once else "at least once",
        "batch": batch,
        "concurrency": concurrency,
        "per_s": 1 / every_s if every_s else per_s,
        "timeout_s": timeout_s,
        "retries": {"age_max_s": days * 86_400},
    }
    with hooks_desk(state_dir) as hooks:
        made = hooks.add(name, chosen, secret, by=user_name())
    if made is None:
        say_found({"name": name}, f"{name}\nTry it:  ./headrace hooks test {name}", output)
    else:
        _show_secret(name, made, output)


@app.command("list")
def list_(output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """All hooks: how each is, and how much waits for it.

    Example: ./headrace hooks list
    """
    with hooks_desk(state_dir) as hooks:
        found = hooks.all()
    rows: list[dict[str, object]] = [
        {
            "name": one["name"],
            "state": f"{one['state']}: {one['why']}" if one["why"] else one["state"],
            "waiting": one["waiting"],
            "of": " ".join([one["of"], *one["types"]]) if "of" in one else None,
            "url": one.get("url"),
        }
        for one in found
    ]
    say_rows(rows, output, "There is no hook; `./headrace hooks add` adds one.")


@app.command()
def show(name: str, output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """All that is known of one, but for its secret.

    Example: ./headrace hooks show alarms
    """
    with hooks_desk(state_dir) as hooks:
        told = hooks.show(name)
    text = "\n".join(f"{field:<12} {_shown(value)}" for field, value in told.items())
    say_found(told, text, output)


@app.command()
def pause(name: str, state_dir: StateDir = None) -> None:
    """Send it nothing; what comes for it waits.

    Example: ./headrace hooks pause alarms
    """
    with hooks_desk(state_dir) as hooks:
        hooks.pause(name, by=user_name())
    say(f"{name} is paused: what comes for it waits")


@app.command()
def resume(name: str, state_dir: StateDir = None) -> None:
    """Go on with what waits, in order. So does one go on that was paused since its server failed.

    Example: ./headrace hooks resume alarms
    """
    with hooks_desk(state_dir) as hooks:
        hooks.resume(name, by=user_name())
    say(f"{name} goes on")


@app.command()
def rotate(
    name: str,
    secret: Secret = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Give it a new secret. For a day each request is signed with the old one, too.

    Example: ./headrace hooks rotate alarms
    """
    with hooks_desk(state_dir) as hooks:
        made = hooks.rotate(name, secret, by=user_name())
    _show_secret(name, made, output)


@app.command()
def test(name: str, output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """Send it an event of the type `test`, and show what it answers.

    Example: ./headrace hooks test alarms
    """
    with hooks_desk(state_dir) as hooks:
        began_ms, deadline_s = now_ms() - 60_000, time.monotonic() + _TEST_S
        event_id = hooks.send_test(name, by=user_name())
        while time.monotonic() < deadline_s:
            for told in hooks.log(name, began_ms, _LOG_MAX):
                if told["event_id"] == event_id:
                    say_found(told, _answer(told), output)
                    raise typer.Exit(0 if told["verdict"] == "done" else 1)
            time.sleep(0.3)
    raise StackError(
        f"{name} was not asked within {_TEST_S:.0f} s",
        f"see ./headrace status, and ./headrace hooks log {name}",
    )


@app.command()
def log(
    name: str,
    since: Annotated[str, typer.Option(help="90s, 15m, 2h, 1d, or an RFC 3339 time.")] = "1d",
    failed: Annotated[bool, typer.Option("--failed", help="Only tries that failed.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="The last ones.")] = 50,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Each try to send it something: when, of which event, and what it answered.

    Example: ./headrace hooks log alarms --since 1h --failed
    """
    with hooks_desk(state_dir) as hooks:
        found = hooks.log(name, since_ms(since, now_ms()), _LOG_MAX)
    found = [one for one in found if not failed or one["verdict"] != "done"]
    rows: list[dict[str, object]] = [
        {
            "at": to_rfc3339(one["at_ms"]),
            "event_id": one["event_id"],
            "entity_id": one["entity_id"],
            "try": one["try"],
            "status": one["status"],
            "ms": one["ms"],
            "said": one["said"][:60],
        }
        for one in found[-limit:]
    ]
    say_rows(rows, output, f"Nothing was sent to {name} since then.")


@app.command()
def replay(
    name: str,
    since: Annotated[str | None, typer.Option(help="15m, 2h, 1d, or an RFC 3339 time.")] = None,
    until: Annotated[str | None, typer.Option(help="The same; without it, now.")] = None,
    entity: Annotated[str | None, typer.Option(help="Its id; without it, of all.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Its dead letters alone.")] = False,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Send it once more what it has got, or what came before it was added; or what was given up.

    What is new goes on beside it. Receivers that remember webhook-ids see repeats.
    With --failed, times are those at which it was given up.

    Example: ./headrace hooks replay alarms --since 2h --entity device-0001
    """
    from desk.hooks.replay import Window

    asked_ms = now_ms()
    begin_ms, end_ms = (since_ms(time, asked_ms) if time else None for time in (since, until))
    if failed:
        begin, end = (None if at is None else to_rfc3339(at) for at in (begin_ms, end_ms))
        meant = Selection(since=begin, until=end, entity_id=entity)
        with hooks_desk(state_dir) as hooks:
            begun = hooks.replay_failed(name, meant, by=user_name())
        text = f"{begun.letters} letters go to {name} once more: ./headrace letters redrives"
        say_found({"letters": begun.letters, "redrive": begun.id}, text, output)
        return
    if begin_ms is None:
        raise StackError("since when?", "give --since; or --failed, for what was given up")
    window = Window(begin_ms, asked_ms if end_ms is None else end_ms, entity)
    with hooks_desk(state_dir) as hooks:
        count = hooks.replay(name, window, by=user_name())
    say_found({"events": count}, f"{count} events go to {name} once more", output)


@app.command()
def delete(name: str, state_dir: StateDir = None) -> None:
    """Delete it. What waits for it is dropped.

    Example: ./headrace hooks delete alarms
    """
    with hooks_desk(state_dir) as hooks:
        hooks.delete(name, by=user_name())
    say(f"{name} is deleted")


def _show_secret(name: str, secret: str, output: Output) -> None:
    text = (
        f"{name}\nsecret  {secret}\n\nIt is not shown again. Its receiver checks signatures with "
        f"it: docs/webhooks.md\nTry it:  ./headrace hooks test {name}"
    )
    say_found({"name": name, "secret": secret}, text, output)


def _answer(told: dict[str, Any]) -> str:
    status = "no answer" if told["status"] is None else f"status {told['status']}"
    return f"{told['verdict']}: {status} after {told['ms']} ms: {told['said']}".removesuffix(": ")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "(all)"
    if isinstance(value, dict):
        return ", ".join(f"{key} {one}" for key, one in value.items())
    return "-" if value is None else str(value)
