from local_stack.terminal.output import Output, OutputOption, say_found


def version(output: OutputOption = Output.TABLE) -> None:
    """The versions of Headrace and of its parts.

    Example: ./headrace version -o json
    """
    from local_stack.machine.versions import versions

    found = versions()
    text = "\n".join(f"{name:<12} {number}" for name, number in found.items())
    say_found(found, text, output)
