import asyncio
import random
from contextlib import ExitStack
from typing import Annotated

import typer

from local_stack.run.desks import hooks_here
from local_stack.run.options import StateDir, folder_of
from local_stack.run.server_addresses import kafka_bootstrap, running_stack
from local_stack.terminal.output import Output, OutputOption, say_json
from local_stack.terminal.progress import ProgressLine, say


def demo(
    events: Annotated[
        int | None, typer.Option(min=1, help="End after that many messages, repeats aside.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0.1, help="End after that time.")] = None,
    rate: Annotated[float, typer.Option(min=0.1, max=5000, help="Messages a second.")] = 20,
    devices: Annotated[int, typer.Option(min=1, max=1000, help="How many send.")] = 20,
    seed: Annotated[int | None, typer.Option(help="The same seed sends the same messages.")] = None,
    alarms: Annotated[
        bool,
        typer.Option("--alarms", help="Show each alarm reach a webhook and a page of the demo's."),
    ] = False,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """A simulated fleet posts, some of it late, broken or sent twice; then the books are shown.

    Without --events and --seconds it runs until Ctrl-C.

    Example: ./headrace demo --seconds 30
    """
    from local_stack.demo.alarm_server import HOST
    from local_stack.demo.alarm_watch import watched_alarms
    from local_stack.demo.credential import own_credential
    from local_stack.demo.run import DemoOptions, run_demo
    from local_stack.demo.show import alarm_books, books, folded, more
    from local_stack.machine.settings_check import chosen_flow

    status = running_stack(folder_of(state_dir))
    chosen_seed = random.randrange(10_000) if seed is None else seed
    wish = DemoOptions(devices, rate, chosen_seed, events, seconds)
    url, bootstrap = status["gateway_url"], kafka_bootstrap(state_dir)
    quiet = output is Output.JSON
    if not quiet:
        say(f"{devices} devices post {rate:g} messages a second to {url}. Ctrl-C ends it.")
    progress = None if quiet else ProgressLine("demo", seconds_between_lines=5.0)
    with ExitStack() as until_its_end:
        each = status["gateway_urls"].values()
        token = until_its_end.enter_context(own_credential(each, bootstrap))
        watch = None
        if alarms:
            if not quiet:
                say("It adds a webhook of its own, and waits until forward has reached it.")
            hooks = until_its_end.enter_context(hooks_here(state_dir, hosts_allowed=HOST))
            watch = until_its_end.enter_context(watched_alarms(hooks, url, token))
            if not quiet:
                say(f"Alarms, as they come: {watch.page_url}")
        end = asyncio.run(run_demo(url, bootstrap, chosen_flow(), wish, progress, token, watch))
    if progress is None:
        ran = {"seed": chosen_seed, "seconds": round(end.seconds, 1), "folded": end.folded}
        said = {**ran, **end.balance.as_document()}
        say_json(said if end.alarms is None else {**said, "alarms": end.alarms.as_document()})
    else:
        posts_a_second = end.balance.sent / end.seconds
        progress.done(
            f"sent {posts_a_second:.0f} a second for {end.seconds:.0f} s, seed {chosen_seed}"
        )
        device = next(iter(end.after))
        say("\n".join(["", *books(end.sent, end.balance), ""]))
        say("\n".join([*folded(end.before, end.after, end.folded), ""]))
        if end.alarms is not None:
            say("\n".join([*alarm_books(end.alarms), ""]))
        say("\n".join([*more(end.balance, device, url), ""]))
    raise typer.Exit(0 if end.good else 1)
