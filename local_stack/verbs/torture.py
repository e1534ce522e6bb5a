import typer


def torture(context: typer.Context) -> None:
    """Stacks of their own, hurt under load by faults that a seed chooses, and judged; a developer's
    verb.

    --seed N or --seeds 1-20, --events N, --faults N; --resume FILE keeps the results and goes on
    from there; --list shows the kinds of fault, --only WORD and --without WORD choose among them.

    Example: ./headrace torture --seed 7 --events 20000 --faults 12
    """
    from local_stack.develop.checks import run_fault_rig

    run_fault_rig(context.args)
