import typer


def test(context: typer.Context) -> None:
    """Lint, types, import walls, then pytest.

    Example: ./headrace test tests/shared -k fold
    """
    from local_stack.develop.checks import run_checks_and_tests

    raise typer.Exit(run_checks_and_tests(context.args))
