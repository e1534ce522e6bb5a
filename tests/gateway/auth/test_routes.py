"""Who may do what, on the routes themselves."""

import logging
from typing import Any
from uuid import UUID

import pytest

from gateway.state_view.peer_protocol import HELD_PATH, STATES_PATH
from tests.gateway.auth.support import Given, device
from tests.gateway.support import Gateway

Owners = dict[str, Given]
ROUTES = [
    ("POST", "/v1/telemetry/device-0001"),
    ("POST", "/v1/telemetry"),
    ("POST", "/v1/nothing/device-0001"),
    ("GET", "/v1/telemetry/device-0001"),
    ("POST", "/v1/telemetry/bad%20id"),
    ("GET", "/state/device-0001"),
    ("GET", "/state/area/north"),
    ("GET", "/state/nothing/x"),
    ("GET", "/health"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/metrics"),
    ("GET", "/nothing"),
    ("GET", "/v1"),
    ("GET", "/v1x"),
    ("GET", "/livez/"),
    ("GET", "/"),
    ("OPTIONS", "/health"),
]
NOBODY = [
    {},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": "Bearer hr_0123456789ab_" + "0" * 64},
    {"authorization": "Basic aHI6aHI="},
    device("device-0001").headers,  # revoked, or never added: the same
]


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=str)
def test_whoever_is_not_known_gets_the_same_answer_everywhere(
    asking: Gateway, owners: Owners, method: str, path: str
) -> None:
    good = owners[":one"].token.text
    doubled = [("authorization", f"Bearer {good}")] * 2
    wrong = {"authorization": f"Bearer {good[:-1]}x"}
    answers = [asking.ask(method, path, headers=headers) for headers in [*NOBODY, wrong, doubled]]
    assert {answer.status_code for answer in answers} == {401}
    assert {answer.content for answer in answers} == {answers[0].content}
    assert {answer.headers["www-authenticate"] for answer in answers} == {'Bearer realm="headrace"'}
    said = answers[0].json()
    assert said["code"] == "unauthenticated"
    assert said.get("outcome") == ("definite" if method == "POST" else None)
    assert asking.log.records == []


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_whoever_starts_and_stops_gateways_is_not_asked(asking: Gateway, path: str) -> None:
    assert asking.ask("GET", path).status_code == 200


@pytest.mark.parametrize("path", [HELD_PATH, STATES_PATH])
def test_other_gateways_show_a_token_of_their_own(asking: Gateway, path: str) -> None:
    """Where states are not divided, there is nothing to ask for."""
    assert asking.ask("GET", path).status_code == 404
    assert asking.ask("GET", f"{path}/").status_code == 401


def test_a_device_writes_its_own_id_and_reads_it_where_the_receipt_says(
    asking: Gateway, owners: Owners
) -> None:
    for tenant, full in (("", "device-0001"), ("acme", "acme/device-0001")):
        me = owners[f"{tenant}:one"].headers
        answer = asking.post(headers=me)
        assert (answer.status_code, answer.headers["location"]) == (202, "/state/device-0001")
        record = asking.log.records[-1]
        assert record.key == full.encode()
        assert record.headers.get("ce_tenant") == (tenant.encode() or None)
        shown = asking.ask("GET", answer.headers["location"], headers=me).json()
        assert (shown["id"], shown["state"]) == ("device-0001", {"of": full})


def test_the_same_key_and_id_are_two_events_in_two_tenants(asking: Gateway, owners: Owners) -> None:
    ids = set()
    for tenant in ("", "acme", "beta"):
        headers = {**owners[f"{tenant}:one"].headers, "idempotency-key": "k"}
        ids |= {asking.post(headers=headers).json()["id"] for _ in range(2)}
    assert len(ids) == 3
    assert {UUID(event_id).version for event_id in ids} == {8}


def test_a_device_writes_no_other_id(asking: Gateway, owners: Owners) -> None:
    for content_type in ("application/json", "application/x-ndjson"):
        answer = asking.post(
            "/v1/telemetry/device-0002",
            headers={**owners["acme:one"].headers, "content-type": content_type},
        )
        assert (answer.status_code, answer.json()["code"]) == (403, "not_your_id")
        assert answer.json()["outcome"] == "definite"
    assert asking.log.records == []


def frames(*ids: str) -> bytes:
    return b"".join(b"%s 2\n{}\n" % entity_id.encode() for entity_id in ids)


def test_in_a_batch_each_frame_is_judged_alone(asking: Gateway, owners: Owners) -> None:
    ids = ("device-0001", "device-0002", "acme/device-0001", "device-0001")
    answer = post_frames(asking, owners["acme:one"], *ids)
    receipts = answer.json()["receipts"]
    assert answer.status_code == 207
    assert [r["status"] for r in receipts] == [202, 403, 400, 202]
    assert (receipts[1]["code"], receipts[1]["outcome"]) == ("not_your_id", "definite")
    assert [r.key for r in asking.log.records] == [b"acme/device-0001"] * 2


def test_a_batch_of_others_alone_is_refused_as_a_whole(asking: Gateway, owners: Owners) -> None:
    answer = post_frames(asking, owners[":one"], "device-0002", "device-0003")
    assert (answer.status_code, answer.json()["code"]) == (403, "not_your_id")


def test_a_gateway_writes_and_reads_all_devices_of_its_tenant(
    asking: Gateway, owners: Owners
) -> None:
    edge = owners["beta:gateway"]
    assert post_frames(asking, edge, "device-0001", "device-0002").json()["accepted"] == 2
    assert {r.key for r in asking.log.records} == {b"beta/device-0001", b"beta/device-0002"}
    answer = asking.ask("GET", "/state/device-0002", headers=edge.headers)
    assert answer.json()["state"] == {"of": "beta/device-0002"}


@pytest.mark.parametrize("name", [":operator", "acme:operator", "all"])
def test_an_operator_writes_nothing(asking: Gateway, owners: Owners, name: str) -> None:
    answers = [
        asking.post(headers=owners[name].headers),
        post_frames(asking, owners[name], "device-0001"),
    ]
    assert [(a.status_code, a.json()["code"]) for a in answers] == [(403, "writers_only")] * 2
    assert asking.log.records == []


@pytest.mark.parametrize("path", ["/health", "/docs", "/openapi.json"])
def test_what_tells_of_all_tenants_is_for_operators_without_one(
    asking: Gateway, owners: Owners, path: str
) -> None:
    for name, owner in owners.items():
        answer = asking.ask("GET", path, headers=owner.headers)
        if name in (":operator", "all"):
            assert answer.status_code in (200, 503), name
        else:
            assert (answer.status_code, answer.json()["code"]) == (403, "operators_only"), name


def test_an_operator_of_all_tenants_names_the_one_that_it_means(
    asking: Gateway, owners: Owners
) -> None:
    def read(name: str, query: str) -> Any:
        answer = asking.ask("GET", f"/state/area/north{query}", headers=owners[name].headers)
        return answer.json().get("state", {}).get("of")

    assert read("all", "") == "north"
    assert read("all", "?tenant=acme") == "acme/north"
    assert read("acme:operator", "") == read("acme:operator", "?tenant=acme") == "acme/north"
    assert read("acme:operator", "?tenant=beta") is None
    assert read("acme:operator", "?tenant=") is None
    assert read(":operator", "?tenant=acme") is None


def test_no_secret_is_ever_logged(
    asking: Gateway, owners: Owners, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for owner in owners.values():
        for method, path in ROUTES:
            answer = asking.ask(method, path, headers=owner.headers)
            secret = owner.token.text.rpartition("_")[2]
            assert secret not in answer.text + str(answer.headers)
            assert secret not in caplog.text
            assert owner.credential.proof.hex() not in caplog.text


def post_frames(gateway: Gateway, owner: Given, *ids: str) -> Any:
    media_type = {"content-type": "application/vnd.headrace.frames"}
    return gateway.post(
        "/v1/telemetry", headers={**owner.headers, **media_type}, content=frames(*ids)
    )
