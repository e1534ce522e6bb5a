from local_stack.terminal.output import Output, OutputOption, say_json
from local_stack.terminal.progress import say


def version(output: OutputOption = Output.TABLE) -> None:
    """The versions of Headrace and of its parts.

    Example: ./headrace version -o json
    """
    from local_stack.machine.versions import versions

    found = versions()
    if output is Output.JSON:
        say_json(found)
    else:
        say("\n".join(f"{name:<12} {number}" for name, number in found.items()))
