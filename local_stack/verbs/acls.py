from typing import Annotated

import typer

from local_stack.terminal.output import Output, OutputOption, say_found


def acls(
    principal: Annotated[
        str, typer.Option(help="Who an application is; {application} stands for its name.")
    ] = "User:headrace-{application}",
    bootstrap: Annotated[str, typer.Option(help="What the commands name.")] = "localhost:9092",
    traces: Annotated[
        bool, typer.Option("--traces", help="Also for HEADRACE_OTLP_ENDPOINT at the relay.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List what each application needs to be allowed in Kafka, as commands for kafka-acls.

    With --principal User:headrace all of them are one user.

    Example: ./headrace acls --bootstrap kafka:9093
    """
    from local_stack.machine.settings_check import chosen_flow
    from local_stack.servers.kafka_acls import as_commands, as_documents
    from shared.published.acls import acls as needed

    found = needed(chosen_flow(), traces=traces)
    text = "\n".join(as_commands(found, principal, bootstrap))
    say_found(as_documents(found, principal), text, output)
