import pytest
from typer.testing import CliRunner

from local_stack import cli
from local_stack.terminal.errors import StackError


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("redrive",), "which letters?"),
        (("discard", "--reason", "why"), "which letters?"),
        (("list", "--since", "never"), "--since never"),
        (("redrive", "--all", "--until", "2026-11-31T00:00:00Z"), "--until 2026-11-31"),
        (("list", "--status", "odd"), "there is no status 'odd'"),
    ],
)
def test_what_is_not_meant_well_is_refused_in_a_sentence(
    arguments: tuple[str, ...], what: str
) -> None:
    error = CliRunner().invoke(cli.app, ["letters", *arguments]).exception
    assert isinstance(error, StackError)
    assert error.what.startswith(what)
    assert error.fix
