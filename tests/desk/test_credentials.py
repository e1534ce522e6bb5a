"""Credentials at the desk: by a program, and by the pages."""

from typing import Any

import httpx
import pytest

from gateway.auth import credential_topic
from gateway.auth.credentials import Credentials
from gateway.auth.token import Tokens
from shared.timestamps import now_ms
from tests.desk.desk_room import Room

pytestmark = pytest.mark.stack
DAY_MS = 86_400_000


def known(room: Room, token: str, at_ms: int) -> tuple[str, str, str | None] | None:
    """Who a gateway takes its owner for, by the topic alone."""
    credentials = Credentials()
    found = credential_topic.read(room.settings.kafka)
    credentials.replace({key.encode(): one for key, one in found.items() if one})
    let_in = Tokens(credentials).check(token.encode(), at_ms)
    return let_in and let_in.caller[:3]  # type: ignore[return-value]


def test_a_program_adds_lists_and_revokes(room: Room) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        asked = {"device": "d-7", "tenant": "acme", "days": 2}
        made = await http.post("/api/credentials", json=asked)
        assert made.status_code == 201, made.text
        key_id, token = made.json()["key_id"], made.json()["token"]
        assert known(room, token, now_ms()) == ("device", "acme", "d-7")
        assert known(room, token, now_ms() + 3 * DAY_MS) is None
        other = (await http.post("/api/credentials", json={"role": "gateway"})).json()
        looks = await http.post("/api/credentials", json={"role": "operator", "may": "look"})
        its = (await http.get(f"/api/credentials/{looks.json()['key_id']}")).json()
        assert (its["role"], its["may"]) == ("operator", "look")
        await http.delete(f"/api/credentials/{looks.json()['key_id']}")
        listed = (await http.get("/api/credentials")).json()["credentials"]
        assert [one["key_id"] for one in listed[:2]] == [other["key_id"], key_id]
        (of_it,) = (await http.get("/api/credentials?device=d-7")).json()["credentials"]
        assert (of_it["key_id"], of_it["role"], of_it["tenant"]) == (key_id, "device", "acme")
        assert len((await http.get("/api/credentials?limit=1")).json()["credentials"]) == 1
        shown = (await http.get(f"/api/credentials/{key_id}")).text
        assert token.rpartition("_")[2] not in shown + str(listed)
        assert (await http.delete(f"/api/credentials/{key_id}")).status_code == 204
        assert known(room, token, now_ms()) is None
        assert (await http.delete(f"/api/credentials/{key_id}")).json()["code"] == "no_credential"
        assert (await http.get(f"/api/credentials/{key_id}")).status_code == 404
        await http.delete(f"/api/credentials/{other['key_id']}")

    room.ask(steps)


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({}, 422, "a device's credential names the device"),
        ({"role": "gateway", "device": "d"}, 422, "a device's credential names the device"),
        ({"device": "a/b"}, 422, "'a/b' is no entity id"),
        ({"device": "d", "tenant": "Acme"}, 422, "'Acme' is no tenant"),
        ({"device": "d", "may": "look"}, 422, "said of an operator's credential"),
        ({"role": "operator", "may": "rule"}, 422, "may"),
        ({"device": "d", "all_tenants": True}, 422, "all_tenants is for an operator"),
        ({"device": "d", "kind": "hmac"}, 422, "HEADRACE_CREDENTIALS_KEY"),
        ({"device": "d", "days": 0}, 422, "days"),
        ({"role": "anyone"}, 422, "role"),
        ({"device": "d", "proof": "00"}, 422, "proof"),
    ],
)
def test_what_cannot_be_is_a_sentence_and_adds_nothing(
    room: Room, asked: dict[str, Any], status: int, says: str
) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        before = credential_topic.read(room.settings.kafka)
        refused = await http.post("/api/credentials", json=asked)
        assert refused.status_code == status
        assert says in refused.text
        assert credential_topic.read(room.settings.kafka) == before

    room.ask(steps)


def test_a_signing_key_is_sealed(room: Room) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        asked = {"device": "d-8", "kind": "hmac"}
        made = (await http.post("/api/credentials", json=asked)).json()
        (sealed,) = (one for key, one in credential_topic.read(room.settings.kafka).items()
                     if key == made["key_id"])  # fmt: skip
        assert sealed is not None
        assert made["secret"].encode() not in sealed.proof
        await http.delete(f"/api/credentials/{made['key_id']}")

    room.ask(steps, credentials_key="07" * 32)
