"""`./headrace credentials`, where no broker is needed."""

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.auth import credential_topic
from gateway.auth.credentials import Credential
from local_stack import cli
from local_stack.run.operator_token import (
    forget_operator_token,
    operator_token,
    renew_operator_token,
)
from local_stack.terminal.errors import StackError
from shared.kafka_access import KafkaAccess
from shared.settings.secret_box import SecretBox


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "whose is it?"),
        (["--device", "d", "--operator"], "whose is it?"),
        (["--device", "a/b"], "'a/b' is no entity id"),
        (["--device", "d", "--tenant", "Acme"], "'Acme' is no tenant"),
        (["--device", "d", "--may", "look"], "what it may is said of an operator's credential"),
        (["--device", "d", "--all-tenants"], "all_tenants is for an operator without a tenant"),
        (["--operator", "--tenant", "acme", "--all-tenants"], "all_tenants is for an operator"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(words: list[str], says: str) -> None:
    error = CliRunner().invoke(cli.app, ["credentials", "add", *words]).exception
    assert isinstance(error, StackError)
    assert error.what.startswith(says)
    assert error.fix


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> dict[str, Credential]:
    known: dict[str, Credential] = {}

    def write(_kafka: KafkaAccess, key_id: str, credential: Credential | None) -> None:
        if credential is None:
            del known[key_id]
        else:
            known[key_id] = credential

    monkeypatch.setattr(credential_topic, "write", write)
    monkeypatch.setattr(credential_topic, "read", lambda _kafka: known)
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    return known


def test_a_secret_is_shown_once_and_written_nowhere(
    topic: dict[str, Credential], tmp_path: Path
) -> None:
    to = ["--state-dir", str(tmp_path)]
    ask = CliRunner().invoke
    shown = ask(cli.app, ["credentials", "add", "--device", "d-1", "--days", "3", *to]).output
    (key_id,) = topic
    secret = shown.partition(f"hr_{key_id}_")[2].split()[0]
    assert len(secret) == 64
    listed = ask(cli.app, ["credentials", "list", *to]).output
    assert key_id in listed
    assert secret not in listed + repr(topic)
    until, made = topic[key_id].not_after_ms, topic[key_id].made_ms
    assert until == made + 3 * 86_400_000

    assert "is revoked" in ask(cli.app, ["credentials", "revoke", key_id, *to]).output
    assert topic == {}
    error = ask(cli.app, ["credentials", "revoke", key_id, *to]).exception
    assert isinstance(error, StackError)
    assert error.what == f"there is no credential {key_id}"


def test_a_signing_secret_is_sealed_before_it_is_written(
    topic: dict[str, Credential], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["credentials", "add", "--device", "d-1", "--kind", "hmac"]
    words += ["--state-dir", str(tmp_path), "-o", "json"]
    monkeypatch.delenv("HEADRACE_CREDENTIALS_KEY", raising=False)
    error = CliRunner().invoke(cli.app, words).exception
    assert isinstance(error, StackError)
    assert "HEADRACE_CREDENTIALS_KEY" in error.what
    assert topic == {}

    monkeypatch.setenv("HEADRACE_CREDENTIALS_KEY", "too short")
    error = CliRunner().invoke(cli.app, words).exception
    assert isinstance(error, StackError)
    assert "too short" not in error.what + error.fix

    monkeypatch.setenv("HEADRACE_CREDENTIALS_KEY", "07" * 32)
    made = json.loads(CliRunner().invoke(cli.app, words).output)
    sealed = topic[made["key_id"]].proof
    assert made["secret"].encode() not in sealed
    box = SecretBox(bytes.fromhex("07" * 32))
    assert box.open(made["key_id"].encode(), sealed) == made["secret"].encode()


def test_the_launcher_has_one_credential_of_its_own(
    topic: dict[str, Credential], tmp_path: Path
) -> None:
    assert operator_token(tmp_path) is None
    renew_operator_token(tmp_path, "127.0.0.1:1")
    first = operator_token(tmp_path)
    renew_operator_token(tmp_path, "127.0.0.1:1")
    second = operator_token(tmp_path)
    assert first != second
    assert [c.caller.role for c in topic.values()] == ["operator"]
    assert next(iter(topic)) in (second or "")
    assert stat.S_IMODE((tmp_path / "operator-token").stat().st_mode) == 0o600
    forget_operator_token(tmp_path)
    forget_operator_token(tmp_path)
    assert operator_token(tmp_path) is None
