"""Who did what with webhooks and credentials, and that it can be done without PostgreSQL."""

import logging
from functools import partial
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from desk.credentials.service import CredentialDesk, caller_of
from desk.hooks.service import HookDesk
from desk.letters.store import open_book
from shared.settings import GatewaySettings
from tests.desk.desk_room import Room

pytestmark = pytest.mark.stack
URL = "https://example.org/services/T01/a-secret-path?key=secret"


def audit(room: Room) -> list[dict[str, Any]]:
    """The first that was done first."""
    return [dict(one) for one in reversed(room.book.audit(100))]


def said(room: Room) -> list[tuple[Any, ...]]:
    return [(one["by"], one["what"], one["letters"], one["selection"], one["reason"])
            for one in audit(room)]  # fmt: skip


def test_each_change_of_a_webhook_is_in_the_audit_and_its_url_is_not(room: Room) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        at = "/api/hooks/audited"
        for method, path, body in (
            ("PUT", at, {"url": URL}),
            ("POST", f"{at}/pause", None),
            ("POST", f"{at}/resume", None),
            ("POST", f"{at}/rotate", None),
            ("POST", f"{at}/test", None),
            (
                "POST",
                f"{at}/replay",
                {"since": "2020-01-01T00:00:00Z", "until": "2020-01-02T00:00:00Z"},
            ),
            ("POST", f"{at}/replay", {"failed": True}),
            ("DELETE", at, None),
        ):
            assert (await http.request(method, path, json=body)).is_success, (method, path)
        for refused in ("pause", "rotate", "test"):
            assert (await http.post(f"{at}/{refused}")).status_code == 404

    room.ask(steps)
    its = {"hook": "audited"}
    window = {**its, "since": "2020-01-01T00:00:00.000Z", "until": "2020-01-02T00:00:00.000Z"}
    *others, failed, deleted = said(room)
    assert others == [
        ("anyone", "add webhook", 1, its, "to example.org"),
        ("anyone", "pause webhook", 1, its, None),
        ("anyone", "resume webhook", 1, its, None),
        ("anyone", "rotate webhook", 1, its, None),
        ("anyone", "test webhook", 1, its, None),
        ("anyone", "replay webhook", 0, window, None),
    ]
    assert failed[:3] == ("anyone", "redrive", 0)
    assert deleted == ("anyone", "delete webhook", 1, its, None)
    assert "secret" not in str(audit(room))


def test_who_adds_and_revokes_a_credential_is_in_the_audit_and_no_secret_is(room: Room) -> None:
    desk = CredentialDesk(room.gateway_settings(), partial(open_book, room.settings))
    of_a_device = desk.add(caller_of("device", "d-1", "acme"), "token", 3, by="ann")
    of_an_operator = desk.add(caller_of("operator"), "token", None, by="bob")
    desk.revoke(of_a_device.key_id, by="bob")
    desk.revoke(of_an_operator.key_id, by="ann")
    device, operator = (
        f"key {of_a_device.key_id}, device",
        f"key {of_an_operator.key_id}, operator who may administer",
    )
    whose = {"entity_id": "d-1", "tenant": "acme"}
    assert said(room) == [
        ("ann", "add credential", 1, whose, device),
        ("bob", "add credential", 1, {}, operator),
        ("bob", "revoke credential", 1, whose, device),
        ("ann", "revoke credential", 1, {}, operator),
    ]
    assert of_a_device.text.rpartition("_")[2] not in str(audit(room))


def test_without_postgresql_a_credential_is_revoked_and_a_webhook_paused_all_the_same(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = SecretStr("postgresql://headrace@127.0.0.1:9/headrace")
    settings: GatewaySettings = room.gateway_settings().model_copy(update={"postgres_url": nowhere})
    credentials = CredentialDesk(settings, partial(open_book, settings))
    hooks = HookDesk(settings, partial(open_book, settings))
    with caplog.at_level(logging.WARNING):
        added = credentials.add(caller_of("device", "d-1", "acme"), "token", None, by="ann")
        credentials.revoke(added.key_id, by="ann")
        hooks.add("away", {"url": URL}, by="ann")
        hooks.pause("away", by="ann")
    assert hooks.show("away")["state"] == "paused"
    assert added.key_id not in {one["key_id"] for one in credentials.all()}
    lines = [one.getMessage() for one in caplog.records if "not in the audit" in one.getMessage()]
    assert len(lines) == 4
    revoked = f"ann: revoke credential: entity_id d-1, tenant acme: key {added.key_id}, device;"
    assert revoked in lines[1]
    assert "ann: add webhook: hook away: to example.org;" in lines[2]
    assert "secret" not in lines[2]
    hooks.delete("away", by="ann")
