import json
import shlex
from itertools import pairwise

from typer.testing import CliRunner

from local_stack import cli
from shared.flow import FLOW
from shared.published.acls import acls


def printed(*arguments: str) -> str:
    ran = CliRunner().invoke(cli.app, ["acls", *arguments])
    assert ran.exit_code == 0, ran.output
    return ran.output


def told(output: str) -> set[tuple[str, str, str]]:
    """Who, operation and resource, as Kafka's tool reads these commands."""
    found = set()
    for line in output.splitlines():
        words = shlex.split(line)
        pairs = list(pairwise(words))
        (who,) = [value for word, value in pairs if word == "--allow-principal"]
        operations = [value for word, value in pairs if word == "--operation"]
        names = [value for word, value in pairs if word in ("--topic", "--group")]
        names += ["kafka-cluster"] if "--cluster" in words else []
        found |= {(who, operation, name) for operation in operations for name in names}
    return found


def test_the_commands_say_what_the_list_says() -> None:
    assert told(printed()) == {
        (f"User:headrace-{a.application}", a.operation.title().replace("_", ""), a.name)
        for a in acls(FLOW)
    }


def test_all_applications_can_be_one_user() -> None:
    together = told(printed("--principal", "User:CN=headrace,O=mill"))
    assert {who for who, _, _ in together} == {"User:CN=headrace,O=mill"}
    assert {row[1:] for row in together} == {row[1:] for row in told(printed())}


def test_the_document_has_each_of_them() -> None:
    rows = json.loads(printed("-o", "json"))
    assert [(r["application"], r["operation"], r["kind"], r["name"]) for r in rows] == acls(FLOW)
    assert rows[0]["principal"] == f"User:headrace-{rows[0]['application']}"
