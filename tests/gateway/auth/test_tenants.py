"""Two tenants, every route, every form of an id: nobody gets across."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import httpx
import pytest

from gateway.auth.caller import ANYONE, Caller
from tests.gateway.auth.support import Given
from tests.gateway.support import Gateway

OTHERS = ("", "beta/")  # than acme
# ways to write `beta/device-0001`, or an id that might be taken for another one
FORMS = [
    "{other}device-0001",
    "{other}device-0002",
    "{other}north",
    "{encoded}device-0001",
    "{twice}device-0001",
    "../{other}device-0001",
    "..%2f{encoded}device-0001",
    "%2e%2e/{other}device-0001",
    "./{other}device-0001",
    "%2e/{other}device-0001",
    "/{other}device-0001",
    "//{other}device-0001",
    "%2f{encoded}device-0001",
    "{other}/device-0001",
    "acme/../{other}device-0001",
    "acme%2f..%2f{encoded}device-0001",
    "{other}DEVICE-0001",
    "{other}device-0001.",
    "{other}device-0001%00",
    "%00{other}device-0001",
    "{other}device-0001%20",
    "{other}device-00001",
    "{other}device-01",
    "{other}device%2d0001",
    "{other}device-0001/",
    "{other}device-0001/.",
    "{other}device-0001;x=1",
    "{other}device-0001?tenant=beta",
    "device-0001?tenant=beta",
    "device-0001?tenant=",
    "device-0001?tenant=beta/",
    "device-0001?tenant=acme&tenant=beta",
    "device-0001?Tenant=beta",
    "device-0001#{other}",
    "{other}device\u20100001".replace("\u2010", "%E2%80%90"),  # a hyphen that is another one
    "{other}device-000%EF%BC%91",  # a full-width 1
    "{other}device-0001%E2%80%8B",
    "{slash}device-0001",
    "{other}device-0001%0d%0ax-tenant:%20beta",
]
PREFIXES = ("/v1/telemetry/", "/v1/status/", "/state/", "/state/device/", "/state/area/")
BODIES = {method: {"content": b"{}"} for method in ("POST", "PUT", "PATCH")}
METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS")


def forms() -> list[str]:
    found = [
        form.format(
            other=other,
            encoded=other.replace("/", "%2f"),
            twice=other.replace("/", "%252f"),
            slash=other.replace("/", "%E2%88%95"),
        )
        for other, form in product(OTHERS, FORMS)
    ]
    return sorted(set(found))


def _answers(
    asking: Gateway, asked: list[tuple[str, str, dict[str, Any]]]
) -> Iterator[httpx.Response]:
    for some in range(0, len(asked), 100):
        yield from asking.ask_all(asked[some : some + 100])


@pytest.mark.slow
def test_no_form_of_an_id_on_any_route_crosses(asking: Gateway, owners: dict[str, Given]) -> None:
    inside = {name: owner for name, owner in owners.items() if name.startswith("acme:")}
    assert len(inside) == 4
    looked_at = written = shown = 0
    asked: list[tuple[str, str, dict[str, Any]]] = [
        (method, prefix + form, {"headers": owner.headers, **BODIES.get(method, {})})
        for owner, method, prefix, form in product(inside.values(), METHODS, PREFIXES, forms())
    ]
    for (method, path, _), answer in zip(asked, _answers(asking, asked), strict=True):
        looked_at += 1
        if method == "GET" and answer.status_code == 200:
            state_of = answer.json()["state"]["of"]
            assert state_of.startswith("acme/"), (method, path)
            shown += 1
        elif method in ("GET", "HEAD"):
            assert answer.status_code in (400, 401, 403, 404, 405), (method, path)
        else:
            assert answer.status_code < 500, (method, path)
    for record in asking.log.records:
        assert record.key.startswith(b"acme/"), record
        assert record.key.count(b"/") == 1, record
        assert record.headers["ce_tenant"] == b"acme", record
        written += 1
    # it has seen what it judges: own ids were written and shown
    assert looked_at > 5000
    assert written > 20
    assert shown > 20


def test_frames_of_a_gateway_stay_in_its_tenant(asking: Gateway, owners: dict[str, Given]) -> None:
    ids = ["beta/device-0001", "/device-0001", "../device-0001", "", ".", "beta%2fdevice-0001"]
    ids += ["device-0001\0", "device-0001\u2215x", "device-0001"]
    body = b"".join(b"%s 2\n{}\n" % one.encode() for one in ids)
    headers = {**owners["acme:gateway"].headers, "content-type": "application/vnd.headrace.frames"}
    answer = asking.post("/v1/telemetry", headers=headers, content=body)
    assert [r["status"] for r in answer.json()["receipts"]] == [400] * 8 + [202]
    assert [r.key for r in asking.log.records] == [b"acme/device-0001"]


def test_what_another_tenant_has_looks_like_what_nobody_has(
    asking: Gateway, owners: dict[str, Given]
) -> None:
    def told(name: str, path: str) -> Any:
        answer = asking.ask("GET", path, headers=owners[name].headers)
        said = answer.json()
        del said["instance"]
        return answer.status_code, said

    nobody_has = told("acme:operator", "/state/device/nobody")
    assert nobody_has[0] == 404
    assert told("acme:operator", "/state/device/device-0001?tenant=beta") == nobody_has
    assert told("acme:operator", "/state/device/device-0001?tenant=none") == nobody_has
    assert told("acme:one", "/state/device/device-0002") == nobody_has
    assert told("acme:one", "/state/device/nobody") == nobody_has
    for name in ("acme:one", "acme:gateway"):
        nowhere = told("acme:operator", "/state/area/nowhere")
        assert told(name, "/state/area/north") == told(name, "/state/area/device-0001") == nowhere


def test_of_events_everyone_is_told_of_what_it_may_read_the_state_of() -> None:
    callers = {
        "device": Caller("device", "acme", "device-0001"),
        "gateway": Caller("gateway", "acme"),
        "operator": Caller("operator", "acme"),
        "of all": Caller("operator", all_tenants=True),
        "of none": Caller("operator"),
        "anyone": ANYONE,
    }
    seen = {
        full_id: {name for name, caller in callers.items() if caller.may_see(full_id)}
        for full_id in ("acme/device-0001", "acme/device-0002", "beta/device-0001", "device-0001")
    }
    of_all = {"of all", "anyone"}
    assert seen == {
        "acme/device-0001": {"device", "gateway", "operator", *of_all},
        "acme/device-0002": {"gateway", "operator", *of_all},
        "beta/device-0001": of_all,
        "device-0001": {"of none", *of_all},
    }
