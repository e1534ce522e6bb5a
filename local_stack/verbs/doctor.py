import sys
from typing import TYPE_CHECKING

import typer

from local_stack.run.options import StateDir, folder_of
from local_stack.run.stack_file import read_status
from local_stack.terminal.output import Output, OutputOption, say_json
from local_stack.terminal.progress import say

if TYPE_CHECKING:
    from local_stack.doctor.findings import Finding

MARKS = {"green": ("✔", 32), "yellow": ("!", 33), "red": ("✘", 31)}


def doctor(output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """Look at all that the stack depends on; exit code 0 if nothing is red.

    Example: ./headrace doctor
    """
    from local_stack.doctor.findings import Light
    from local_stack.doctor.machine import look_at_machine
    from local_stack.doctor.running import look_at_running
    from local_stack.doctor.settings import look_at_settings

    folder = folder_of(state_dir)
    status = read_status(folder)
    found = [
        *look_at_machine(folder, status),
        *look_at_settings(),
        *look_at_running(folder, status),
    ]
    lights = [finding.light for finding in found]
    if output is Output.JSON:
        findings = [finding._asdict() for finding in found]
        say_json({"ok": Light.RED not in lights, "findings": findings})
    else:
        say("\n".join(line(finding, in_colour=sys.stdout.isatty()) for finding in found))
        counts = {light: lights.count(light) for light in Light}
        say("\n" + ", ".join(f"{n} {light}" for light, n in counts.items() if n))
    raise typer.Exit(1 if Light.RED in lights else 0)


def line(finding: "Finding", *, in_colour: bool) -> str:
    name, light, value, note = finding
    mark, colour = MARKS[light]
    if in_colour:
        mark = f"\033[{colour}m{mark}\033[0m"
    if light == "green":
        return f"  {mark} {name:<13} {value:<22}  {note}".rstrip()
    return f"  {mark} {name:<13} {value}\n{'':18}-> {note}"
