"""GET /state/<entity> as clients see it."""

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import TypedDict

from gateway.auth.authenticate import CredentialAuthenticator
from gateway.auth.caller import Caller
from gateway.lists.route import _columns
from shared.flow import FLOW
from shared.sample_domain import device
from shared.settings import GatewaySettings
from tests.gateway.auth.support import Given, given, table
from tests.gateway.auth.support import device as of_device
from tests.gateway.lists.support import INDEXED, States, room
from tests.gateway.support import Gateway, gateway_of


@pytest.fixture
def states(settings: GatewaySettings) -> Iterator[States]:
    states = States(settings.state_dir)
    states.begin()
    for number, area in enumerate(["north", "north", "south"]):
        own_id = f"device-{number}"
        fields = {**device.initial(own_id), "area": area, "value": 20.0 + number, "count": number}
        states.put(own_id, 3, **fields)
    yield states
    states.store.close()


def asked(gateway: Gateway, path: str, **options: Any) -> Any:
    answer = gateway.ask("GET", path, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(gateway: Gateway, path: str, **options: Any) -> list[str]:
    return [one["id"] for one in asked(gateway, path, **options)["states"]]


@pytest.mark.usefixtures("states")
def test_states_are_found_and_sorted_by_indexed_fields(gateway: Gateway) -> None:
    where = {"where": 'area = "north" and value < 21'}
    told = asked(gateway, "/state/device", params=where)
    assert (told["entity"], told["next"]) == ("device", None)
    (one,) = told["states"]
    assert (one["id"], one["version"]) == ("device-0", 3)
    assert one["event_time"] == "2023-11-14T22:13:20.123Z"
    assert one["updated_at"] == "1970-01-01T00:00:00.005Z"
    assert one["state"]["area"] == "north"
    assert "_meta" not in one["state"]
    assert ids(gateway, "/state/device?sort=-value") == ["device-2", "device-1", "device-0"]
    assert ids(gateway, '/state/device?where=area="north"&where=value>20') == ["device-1"]
    assert ids(gateway, "/state/area") == []
    # of an id the state is shown as before
    assert asked(gateway, "/state/device-1")["state"]["count"] == 1
    assert asked(gateway, "/state/device/device-1")["state"]["count"] == 1


@pytest.mark.usefixtures("states")
def test_a_list_says_how_far_it_may_be_behind(gateway: Gateway) -> None:
    told = asked(gateway, "/state/device")
    assert told["view"].keys() == {"caught_up_at", "lag_ms"}
    assert told["pipeline_lag_s"] is None
    assert (told["stale"], told["stale_because"]) == (True, "enrich has given no sign of life yet")


@pytest.mark.usefixtures("states")
def test_a_page_goes_on_where_the_one_before_has_ended(gateway: Gateway) -> None:
    found, after = [], ""
    while after is not None:
        told = asked(gateway, f"/state/device?sort=-value&limit=2&next={after}")
        found.append([one["id"] for one in told["states"]])
        after = told["next"]
    assert found == [["device-2", "device-1"], ["device-0"]]


@pytest.mark.usefixtures("states")
def test_next_is_of_its_own_question_alone(gateway: Gateway) -> None:
    after = asked(gateway, "/state/device?sort=-value&limit=1")["next"]
    for other in ("sort=value", "sort=-value&where=value>1", "sort=-value&tenant=acme", ""):
        answer = gateway.ask("GET", f"/state/device?{other}&next={after}")
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_parameter")
        assert "next is of another question" in answer.json()["detail"]
    for broken in ("x", "W10=", "bnVsbA==", "MQ==", after[:-4]):
        answer = gateway.ask("GET", f"/state/device?sort=-value&next={broken}")
        assert answer.status_code == 400
        assert "next is what an answer said is next" in answer.json()["detail"]


@pytest.mark.usefixtures("states")
@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        (
            "where=count>1",
            "not_indexed",
            "count is no indexed field of device; it is found and sorted by: id, area, status, "
            "connection, value",
        ),
        ("sort=count", "not_indexed", "it is found and sorted by: id, area"),
        ("sort=", "not_indexed", "it is found and sorted by: id, area"),
        ("where=value", "bad_condition", "write an indexed field"),
        ("tenant=a/b", "bad_parameter", "tenant is a tenant's name"),
        ("limit=0", "bad_parameter", "limit is a whole number from 1 to 1000"),
        ("limit=1001", "bad_parameter", "limit is a whole number from 1 to 1000"),
        ("area=north", "unknown_parameter", "area is no parameter here: a list is asked for by"),
    ],
)
def test_what_a_request_cannot_mean_is_told(
    gateway: Gateway, query: str, code: str, said: str
) -> None:
    answer = gateway.ask("GET", f"/state/device?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert said in answer.json()["detail"]


@pytest.mark.usefixtures("states")
def test_whoever_wants_csv_gets_it_with_a_link_to_the_next_page(gateway: Gateway) -> None:
    headers = {"accept": "text/csv"}
    answer = gateway.ask("GET", "/state/device?sort=-value&limit=2", headers=headers)
    assert answer.headers["content-type"].startswith("text/csv")
    rows = [*csv.DictReader(answer.text.splitlines())]
    columns = ["id", "version", "event_time", "updated_at", *device.Device.__annotations__]
    assert [*rows[0]] == columns
    assert [(row["id"], row["value"], row["connection"]) for row in rows] == [
        ("device-2", "22.0", ""),
        ("device-1", "21.0", ""),
    ]
    link = re.fullmatch('<(.+)>; rel="next"', answer.headers["link"])
    assert link is not None
    rest = gateway.ask("GET", link[1], headers=headers)
    assert [*rest.text.splitlines()[0].split(",")] == columns
    assert rest.text.splitlines()[1].startswith("device-0,3,")
    assert "link" not in rest.headers


def test_until_the_states_are_read_and_indexed_nothing_is_said(
    gateway: Gateway, settings: GatewaySettings
) -> None:
    def refused() -> tuple[int, str, str]:
        answer = gateway.ask("GET", "/state/device?sort=value")
        return answer.status_code, answer.json()["code"], answer.headers["retry-after"]

    assert refused() == (503, "warming", "1")
    states = States(settings.state_dir)
    states.store.begin_topic(states.topic, "an id")
    assert refused() == (503, "warming", "1")
    states.caught_up()
    assert refused() == (503, "indexing", "1")
    states.begin()
    assert ids(gateway, "/state/device") == []
    states.store.close()
    # the flow of the writer has other fields
    States(settings.state_dir, INDEXED[1:]).store.close()
    assert refused() == (503, "indexing", "1")


@pytest.mark.usefixtures("states")
def test_an_entity_without_indexed_fields_has_no_list(settings: GatewaySettings) -> None:
    plain = replace(FLOW, entities=(replace(FLOW.entities[0], indexed=()),))
    with gateway_of(settings, flow=plain) as gateway:
        answer = gateway.ask("GET", '/state/device?where=area="north"')
        assert (answer.status_code, answer.json()["code"]) == (400, "no_list")
        assert "its row of the flow says by `indexed`" in answer.json()["detail"]
        assert gateway.ask("GET", "/state/device").json()["code"] == "unknown_id"
        assert "/state/device" not in asked(gateway, "/openapi.json")["paths"]


def test_the_document_has_each_entity_s_own_fields(gateway: Gateway) -> None:
    document = asked(gateway, "/openapi.json")
    path = document["paths"]["/state/device"]["get"]
    told = {one["name"]: one["schema"] for one in path["parameters"]}
    assert told.keys() == {"where", "sort", "limit", "next", "tenant"}
    assert {"value", "-value", "id", "-id"} <= {*told["sort"]["enum"]}
    pattern = re.compile(told["where"]["pattern"])
    assert pattern.match('area = "north" and value>=21.5 and connection != null')
    for wrong in ("count > 1", 'value = "x"', "area > 1", "value > 1 or value < 0", ""):
        assert not pattern.match(wrong)
    answers = path["responses"]["200"]["content"]
    assert answers["application/json"]["schema"] == {"$ref": "#/components/schemas/States"}
    assert "text/csv" in answers
    assert "States" in document["components"]["schemas"]


def test_each_caller_is_shown_its_own_tenant_s_states(
    settings: GatewaySettings, states: States
) -> None:
    for key in ("acme/device-7", "acme/device-8", "other/device-9"):
        states.put(key, **device.initial(key))
    states.put_all([])
    operator, gateway_of_acme = given(Caller("operator", "acme")), given(Caller("gateway", "acme"))
    own, nobody = of_device("device-8", "acme"), of_device("device-1", "acme")
    whole = given(Caller("operator", all_tenants=True))
    without = given(Caller("operator"))
    known = table(operator, gateway_of_acme, own, nobody, whole, without)
    who = CredentialAuthenticator(known, settings)
    with gateway_of(settings, who=who) as gateway:

        def seen(by: Given, query: str = "") -> list[str]:
            return ids(gateway, f"/state/device?{query}", headers=by.headers)

        def refused(by: Given, path: str) -> tuple[int, str]:
            answer = gateway.ask("GET", path, headers=by.headers)
            return answer.status_code, answer.json()["code"]

        for one in (operator, gateway_of_acme):
            assert seen(one) == ["device-7", "device-8"]
            assert seen(one, "tenant=acme&sort=-id") == ["device-8", "device-7"]
            assert seen(one, 'where=id="device-9"') == []
        # a device itself alone, however it asks
        assert seen(own) == seen(own, "sort=-value") == ["device-8"]
        assert seen(own, 'where=id!="device-8"') == seen(own, 'where=id="device-7"') == []
        assert seen(nobody) == []
        assert seen(without) == seen(whole) == ["device-0", "device-1", "device-2"]
        assert seen(whole, "tenant=other") == ["device-9"]
        for one in (operator, gateway_of_acme, own, without):
            assert refused(one, "/state/device?tenant=other") == (404, "nothing_to_read")
        for one in (gateway_of_acme, own):
            assert refused(one, "/state/area") == (404, "nothing_to_read")
        assert ids(gateway, "/state/area", headers=operator.headers) == []
        assert gateway.ask("GET", "/state/device").status_code == 401
        # a place in the list of one tenant is none in that of another
        after = asked(gateway, "/state/device?limit=1", headers=operator.headers)["next"]
        assert refused(whole, f"/state/device?limit=1&next={after}") == (400, "bad_parameter")


def test_no_column_of_csv_hides_another_one() -> None:
    class Odd(TypedDict):
        id: str
        state_id: str
        version: int
        other: str

    of = room(state=Odd)
    assert _columns(of) == {
        "id": None,
        "version": None,
        "event_time": None,
        "updated_at": None,
        "state_state_id": "id",
        "state_id": "state_id",
        "state_version": "version",
        "other": "other",
    }
