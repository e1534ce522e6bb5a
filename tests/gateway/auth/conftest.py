"""A gateway that asks who is asking, with two tenants, on a fake log and a warm view."""

import json
import time
from collections.abc import Iterator

import pytest

from gateway.auth.authenticate import CredentialAuthenticator
from gateway.auth.caller import Caller
from gateway.state_view.records import Changes, Row
from gateway.state_view.store import ViewStore
from shared.settings import GatewaySettings
from tests.gateway.auth.support import Given, device, given, table
from tests.gateway.support import Gateway, built

# the same two ids in each tenant, and without one
OWNERS = {
    f"{tenant}:{name}": made
    for tenant in ("", "acme", "beta")
    for name, made in (
        ("one", device("device-0001", tenant)),
        ("two", device("device-0002", tenant)),
        ("gateway", given(Caller("gateway", tenant))),
        ("operator", given(Caller("operator", tenant))),
    )
} | {"all": given(Caller("operator", all_tenants=True))}
IDS = [
    f"{tenant}{own}"
    for tenant in ("", "acme/", "beta/")
    for own in ("device-0001", "device-0002", "north")
]


@pytest.fixture
def owners() -> dict[str, Given]:
    return OWNERS


@pytest.fixture
def asking(settings: GatewaySettings, store: ViewStore) -> Iterator[Gateway]:
    for topic in ("state.device.v1", "state.area.v1"):
        store.begin_topic(topic, "an id")
        changes = Changes()
        for full_id in IDS:
            changes.put(_snapshot(topic, full_id))
        store.apply(changes)
        store.caught_up([topic], time.time_ns() // 1_000_000)
    gateway = built(settings, who=CredentialAuthenticator(table(*OWNERS.values())))
    yield gateway
    gateway.health.view.close()


def _snapshot(topic: str, full_id: str) -> Row:
    value = {"of": full_id, "_meta": {"version": 1, "event_time_ms": None, "fold": "abc"}}
    return Row(topic, full_id.encode(), json.dumps(value).encode(), 1, 0, 0, 0)
