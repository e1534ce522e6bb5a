from typing import Annotated

import typer

from local_stack.run.options import StateDir, folder_of
from local_stack.terminal.ctrl_c import ended_by_ctrl_c


def up(
    random_ports: Annotated[
        bool, typer.Option("--random-ports", help="Free ports, so that stacks run side by side.")
    ] = False,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", min=0, max=16, help="Run the jobs on a Spark cluster of so many workers."
        ),
    ] = 0,
    gateways: Annotated[
        int,
        typer.Option(
            "--gateways", min=1, max=16, help="So many gateways, each a node, behind a balancer."
        ),
    ] = 1,
    state_dir: StateDir = None,
) -> None:
    """Start everything and stay in front; Ctrl-C stops it.

    Example: ./headrace up
    """
    with ended_by_ctrl_c():
        from local_stack.run.foreground import run_in_foreground

    run_in_foreground(
        folder_of(state_dir), random_ports=random_ports, workers=workers, gateways=gateways
    )
