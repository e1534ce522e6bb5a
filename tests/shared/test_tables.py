"""Tables of a domain's own: what the flow makes of them, and what it refuses."""

from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from local_stack.contracts.documents import value_schemas
from local_stack.verbs.flow import document as flow_document
from local_stack.verbs.flow import picture
from shared.flow import FLOW
from shared.flow_table import Flow
from shared.master_data import SqlSource, TopicSource
from shared.model import FreshField, Table
from shared.published.acls import acls


class Price(TypedDict):
    sku: str
    cents: int


class NumberedPrice(BaseModel):
    number: int


PRICE = Table("price", row=Price, key="sku")
LOOKS_UP = replace(FLOW.endpoints[0], master=("device", "price"))


def _flow(*tables: Any, **changes: Any) -> Flow:
    endpoint = replace(LOOKS_UP, **changes)
    return replace(FLOW, endpoints=(endpoint, FLOW.endpoints[1]), tables=tables)


def test_a_table_gets_its_topic_and_the_jobs_that_look_it_up_read_it() -> None:
    flow = _flow(PRICE, Table("unused"))
    made = {topic.name: topic for topic in flow.topics()}
    assert made["master.price.v1"].config["cleanup.policy"] == "compact"
    jobs = {job.name: job for job in flow.jobs()}
    for name in ("enrich", "retry"):
        assert "master.price.v1" in jobs[name].looks_up
        assert "master.unused.v1" not in jobs[name].looks_up
    assert "master.unused.v1" in made
    writers = {acl.application for acl in acls(flow) if acl[1:3] == ("WRITE", "topic")
               and acl.name in ("master.price.v1", "master.unused.v1")}  # fmt: skip
    assert writers == {"relay"}


def test_the_contract_of_its_rows_is_published() -> None:
    schemas = value_schemas(_flow(PRICE))
    row = jsonschema_rs.validator_for(schemas["master.price.v1.row.schema.json"])
    for value, keeps in (({"sku": "a", "cents": 5}, True), (None, True), ({"sku": "a"}, False)):
        assert row.is_valid(value) is keeps
    assert "master.device.v1.row.schema.json" not in schemas


@pytest.mark.parametrize(
    ("flow", "says"),
    [
        (lambda: _flow(), "telemetry looks up 'price', which no table declares: add Table"),
        (lambda: _flow(PRICE, PRICE), "table 'price' is declared twice"),
        (lambda: _flow(PRICE, Table("device")), "'device' is there already .* another name"),
        (lambda: _flow(PRICE, Table("device_model")), "'device_model' is there already"),
        (lambda: _flow(PRICE, Table("Two.Words")), "table 'Two.Words': use lower-case"),
        (lambda: _flow(PRICE, Table("x", row=object())), "table x has a contract that cannot be"),
        (lambda: _flow(replace(PRICE, key="id")), "price: its rows have no text 'id'"),
        (
            lambda: _flow(PRICE, Table("x", NumberedPrice, key="number")),
            "x: its rows have no text 'number'",
        ),
        (
            lambda: _flow(PRICE, fresh=(FreshField("price", "sku", "cents"),)),
            "telemetry wants 'cents' of 'price' fresh",
        ),
        (lambda: replace(FLOW, tables=PRICE), "tables is no tuple"),
    ],
)
def test_tables_that_do_not_add_up_are_refused(flow: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        flow()


def test_a_table_of_ones_own_in_postgresql_is_published_and_may_be_asked_at_each_use() -> None:
    in_sql = Table("price", in_sql=True)
    flow = _flow(in_sql, fresh=(FreshField("price", "sku", "cents"),))
    assert "master.price.v1" in {topic.name for topic in flow.topics()}


SHOP = SqlSource("shop", "stock.price", version="updated_at")
DEBEZIUM = TopicSource("shop.public.price", debezium=True)


def test_a_table_with_a_source_has_its_topic_as_any_other() -> None:
    flow = _flow(replace(PRICE, source=SHOP))
    assert [table.name for table in flow.sourced_tables] == ["price"]
    assert "master.price.v1" in {topic.name for topic in flow.topics()}
    assert acls(flow) == acls(_flow(PRICE))


def test_the_relay_may_read_the_topic_that_a_table_comes_from_and_nobody_makes_it() -> None:
    flow = _flow(replace(PRICE, source=DEBEZIUM))
    added = {*acls(flow)} - {*acls(_flow(PRICE))}
    assert {(one.application, one.operation, one.name) for one in added} == {
        ("relay", "READ", "shop.public.price"),
        ("relay", "DESCRIBE", "headrace-sources"),
    }
    assert "shop.public.price" not in {topic.name for topic in flow.topics()}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (replace(PRICE, source=replace(SHOP, database="Shop!")), "database 'Shop!'"),
        (replace(PRICE, source=replace(SHOP, relation=" ")), "relation is empty"),
        (replace(PRICE, source=replace(SHOP, every_s=0)), "every_s"),
        (replace(PRICE, source=TopicSource("no topic")), "topic 'no topic'"),
        (replace(PRICE, source=SHOP, in_sql=True), "on one way alone"),
    ],
)
def test_a_source_that_cannot_be_is_refused(table: Table, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        _flow(table)


class Rate(TypedDict):
    sku: str
    from_ms: int


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (Table("price", row=Price, key="sku", valid_from="from_ms"), "no whole number 'from_ms'"),
        (Table("price", row=Rate, key="sku", valid_from="from_ms", in_sql=True), "not in_sql"),
    ],
)
def test_a_table_whose_rows_cannot_say_from_when_on_they_count_is_refused(
    table: Table, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        _flow(table)
    assert _flow(Table("price", row=Rate, key="sku", valid_from="from_ms")).timed_tables == {
        "price"
    }


def test_the_flow_tells_where_rows_come_from() -> None:
    flow = _flow(replace(PRICE, source=SHOP))
    assert "comes from  stock.price in shop" in picture(flow)
    (told,) = flow_document(flow)["tables"]
    assert (told["source"], told["valid_from"]) == ("stock.price in shop", None)
