from pathlib import Path
from typing import Annotated

import typer

from local_stack.machine.paths import CHECKOUT
from local_stack.terminal.errors import StackError
from local_stack.terminal.progress import say

FOLDER = CHECKOUT / "contracts"


def contracts(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail where a file is not up to date.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="The folder. Default: contracts in the checkout.")
    ] = None,
    breaking: Annotated[
        bool, typer.Option("--breaking", help="Write also what breaks those who rely on it.")
    ] = False,
) -> None:
    """Write the flow's contracts as files: AsyncAPI, OpenAPI, a JSON Schema for each topic.

    In the checkout's own folder, the table of all settings (docs/configuration.md) and the picture
    of the flow (docs/flow.svg) are written, too. A flow of your own (HEADRACE_FLOW) needs a folder
    of its own.

    Example: ./headrace contracts --check
    """
    from pydantic.errors import PydanticUserError

    from local_stack.contracts import folder, settings
    from local_stack.contracts.documents import documents
    from local_stack.contracts.flow_picture import PICTURE, picture
    from local_stack.machine.settings_check import chosen_flow
    from shared.settings import Settings

    flow, reference = chosen_flow(), Settings().flow
    if out is None and reference != Settings.model_fields["flow"].default:
        raise StackError(
            f"HEADRACE_FLOW={reference}: {FOLDER.name} in the checkout is the sample's",
            "name a folder for this flow: --out FOLDER",
        )
    where = (out or FOLDER).absolute()
    try:
        wanted = documents(reference)
    except PydanticUserError as error:
        said = str(error).splitlines()[0]
        raise StackError(
            f"a contract of this flow cannot be published: {said}", "give it JSON's own types"
        ) from error
    broken = folder.broken(where, wanted, {*flow.ingest_topics})
    stale = folder.stale(where, wanted)
    pages = {settings.PAGE: settings.page(), PICTURE: picture(flow)} if out is None else {}
    stale += [name for name, text in pages.items() if _read(CHECKOUT / name) != text]
    beside = "".join(f" and {name}" for name in pages)
    if broken and not breaking:
        raise StackError(
            f"this breaks those who rely on it: {'; '.join(broken)}",
            "a breaking change is a new topic: leave the row as it was and add one with another "
            "topic_name (….v2); --breaking writes it all the same, while nobody relies on it yet",
        )
    if check:
        if stale:
            raise StackError(
                f"not up to date in {where}: {', '.join(stale)}", "run: ./headrace contracts"
            )
        say(f"All {len(wanted)} files in {where}{beside} are up to date.")
        return
    folder.write(where, wanted)
    for name, text in pages.items():
        (CHECKOUT / name).write_text(text)
    changed = f", {len(stale)} of them changed" if stale else ", none changed"
    say(f"{len(wanted)} files in {where}{beside}{changed}.")


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
