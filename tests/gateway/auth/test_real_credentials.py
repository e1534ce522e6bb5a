"""Credentials on a real broker: added, used, revoked, and known without Kafka after a restart."""

import json
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from local_stack import cli
from local_stack.run.stack import Stack
from tests.gateway.auth.support import signature_of
from tests.gateway.support import GatewayProcess, until

pytestmark = pytest.mark.stack
BOX_KEY = "07" * 32


class Cli:
    """`./headrace credentials`, as an operator types it."""

    def __init__(self, bootstrap: str, state_dir: Path) -> None:
        self._environment = {
            "HEADRACE_KAFKA_BOOTSTRAP": bootstrap,
            "HEADRACE_STATE_DIR": str(state_dir),
            "HEADRACE_CREDENTIALS_KEY": BOX_KEY,
        }

    def ask(self, *words: str) -> str:
        result = CliRunner(env=self._environment).invoke(cli.app, ["credentials", *words])
        assert result.exit_code == 0, result.output + str(result.exception)
        return result.output

    def add(self, *words: str) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(self.ask("add", *words, "-o", "json"))
        return made


@pytest.fixture
def credentials(broker: Stack, tmp_path: Path) -> Cli:
    return Cli(broker.kafka_bootstrap, tmp_path)


@pytest.fixture
def real(broker: Stack, tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(broker.kafka_bootstrap, tmp_path, auth="token") as gateway:
        yield gateway


def status(gateway: GatewayProcess, token: str | None, path: str = "/v1/telemetry/d-1") -> int:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return gateway.client.post(path, content=b"{}", headers=headers).status_code


def test_a_credential_is_added_used_changed_and_revoked(
    credentials: Cli, real: GatewayProcess
) -> None:
    first = credentials.add("--device", "d-1", "--tenant", "acme")
    until(lambda: status(real, first["token"]) == 202, 10)
    assert status(real, None) == 401
    assert status(real, first["token"], "/v1/telemetry/d-2") == 403

    second = credentials.add("--device", "d-1", "--tenant", "acme")
    until(lambda: status(real, second["token"]) == 202, 10)
    assert status(real, first["token"]) == 202

    listed = {row["key_id"]: row for row in json.loads(credentials.ask("list", "-o", "json"))}
    assert listed[first["key_id"]]["tenant"] == "acme"
    credentials.ask("revoke", first["key_id"])
    until(lambda: status(real, first["token"]) == 401, 10)
    assert status(real, second["token"]) == 202
    assert first["key_id"] not in credentials.ask("list")


def test_who_is_asking_is_known_without_kafka_after_a_restart(
    broker: Stack, credentials: Cli, real: GatewayProcess
) -> None:
    known, revoked = credentials.add("--device", "d-1"), credentials.add("--device", "d-1")
    operator = credentials.add("--operator")
    until(lambda: status(real, revoked["token"]) == 202, 10)
    credentials.ask("revoke", revoked["key_id"])
    until(lambda: status(real, revoked["token"]) == 401, 10)
    broker.hold("kafka")
    try:
        real.stop()
        real.start()
        # who it is is known, whether what it sends is spooled or refused
        assert status(real, known["token"]) in (202, 503)
        assert status(real, revoked["token"]) == 401
        asked = {"authorization": f"Bearer {operator['token']}"}
        assert real.client.get("/health", headers=asked).status_code == 503
        assert real.client.get("/state/d-1", headers=asked).status_code in (404, 503)
    finally:
        broker.release("kafka")
    until(lambda: status(real, known["token"]) == 202, 30)


def test_a_gateway_that_never_knew_any_says_so(broker: Stack, tmp_path: Path) -> None:
    broker.hold("kafka")
    try:
        with GatewayProcess(broker.kafka_bootstrap, tmp_path, auth="token") as fresh:
            answer = fresh.client.post(
                "/v1/telemetry/d-1", content=b"{}", headers={"authorization": "Bearer hr_a_b"}
            )
            assert (answer.status_code, answer.json()["code"]) == (503, "credentials_unknown")
            assert answer.json()["outcome"] == "definite"
    finally:
        broker.release("kafka")


def test_a_signed_request_is_taken_once_by_two_processes_and_after_a_restart(
    broker: Stack, credentials: Cli, tmp_path: Path
) -> None:
    """Elsewhere it is taken again, as the same event."""
    made = credentials.add("--device", "d-1", "--kind", "hmac")
    how = {"auth": "hmac", "credentials_key": BOX_KEY}

    def signed(nonce: str) -> dict[str, str]:
        ts, digest = str(int(time.time())), sha256(b"{}").hexdigest()
        parts = (b"/v1/telemetry/d-1", ts.encode(), nonce.encode(), digest.encode())
        signature = signature_of(made["secret"].encode(), "POST", *parts).decode()
        given = f"key={made['key_id']}, ts={ts}, nonce={nonce}, body={digest}"
        return {"authorization": f"Headrace-HMAC {given}, signature={signature}"}

    def post(gateway: GatewayProcess, headers: dict[str, str]) -> httpx.Response:
        """On a connection of its own, so that either process may get it."""
        url = f"http://127.0.0.1:{gateway.port}/v1/telemetry/d-1"
        return httpx.post(url, content=b"{}", headers=headers, timeout=20)

    def knows(gateway: GatewayProcess) -> bool:
        return all(post(gateway, signed(token_hex(8))).status_code == 202 for _ in range(8))

    with GatewayProcess(
        broker.kafka_bootstrap, tmp_path / "one", gateway_workers=2, **how
    ) as gateway:
        until(lambda: knows(gateway), 20)
        request = signed("caught-on-its-way")
        first = post(gateway, request)
        assert first.status_code == 202
        assert {post(gateway, request).status_code for _ in range(20)} == {401}
        gateway.stop()
        gateway.start()
        until(lambda: knows(gateway), 20)
        assert {post(gateway, request).status_code for _ in range(20)} == {401}
    with GatewayProcess(broker.kafka_bootstrap, tmp_path / "other", **how) as elsewhere:
        until(lambda: knows(elsewhere), 20)
        again = post(elsewhere, request)
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
