from typing import Any

import typer

from local_stack.run.options import StateDir, folder_of
from local_stack.run.stack_file import read_status
from local_stack.servers.postgres_address import shown
from local_stack.terminal.output import Output, OutputOption, say_found


def status(output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """What runs, and where; exit code 0 if all is ready.

    Example: ./headrace status -o json
    """
    found = read_status(folder_of(state_dir))
    found["postgres_url"] = shown(found["postgres_url"])
    say_found(found, "\n".join(lines(found)), output)
    raise typer.Exit(0 if found["ready"] else 1)


def lines(found: dict[str, Any]) -> list[str]:
    rows = [
        ("ready", "yes" if found["ready"] else "no" if found["running"] else "no, not running"),
        ("gateway", found["gateway_url"]),
        ("desk", found["desk_url"]),
        ("Kafka bootstrap", found["kafka_bootstrap"]),
        ("PostgreSQL", found["postgres_url"]),
        ("state folder", found["state_dir"]),
    ]
    each = found["gateway_urls"] if len(found["gateway_urls"]) > 1 else {}
    for name, service in found["services"].items():
        more = [f"pid {service['pid']}"] if service["pid"] else []
        more += [each[name]] if name in each else []
        more += ["takes no payloads now"] if name in found["closed_gateways"] else []
        rows.append((name, ", ".join([service["state"], *more])))
    said = found["job_outputs"]
    rows += [
        (f"job {name}", f"{state}: {said[name]}" if name in said else state)
        for name, state in found["jobs"].items()
    ]
    return [f"{name:<16} {value or '-'}" for name, value in rows]
