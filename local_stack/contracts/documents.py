"""All documents of a flow, by the name of their file."""

from functools import cache
from typing import Any

from local_stack.contracts import asyncapi
from shared import VERSION
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.model import Fields
from shared.published.schemas.by_topic import messages
from shared.settings import GatewaySettings

ASYNCAPI = "asyncapi.json"
OPENAPI = "openapi.json"
DESK = "desk.openapi.json"
MARK = "made by ./headrace contracts"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def documents(flow_reference: str) -> dict[str, Fields]:
    """What others need to know of the flow; the same for the same flow."""
    flow = load_flow(flow_reference)
    schemas = value_schemas(flow)
    return {
        ASYNCAPI: asyncapi.document(flow, VERSION, {*schemas}),
        OPENAPI: _openapi(flow_reference),
        DESK: _of_desk(),
        **schemas,
    }


def value_schemas(flow: Flow) -> dict[str, Fields]:
    """The schema of each file. Tables without a contract have none, and lanes hold records of other
    topics."""
    any_row = {table.topic for table in flow.published_tables if table.row is None}
    return {
        asyncapi.file_of(topic, message, known): {
            "$schema": _DIALECT,
            "$comment": MARK,
            "description": message.says,
            **value,
            "title": topic,
        }
        for topic, known in messages(flow).items()
        if topic not in any_row
        for message in known
        if (value := message.value) is not None
    }


def _openapi(flow_reference: str) -> dict[str, Any]:
    """As the gateway serves it where no other setting was changed; without a spool, which would
    make files."""
    from gateway.node.node import Node
    from gateway.server.composition import parts_of, put_together

    settings = GatewaySettings.model_construct(flow=flow_reference, spool_bytes_max=0)
    return put_together(parts_of(settings, Node())).app.openapi()


@cache
def _of_desk() -> dict[str, Any]:
    """The same for all flows."""
    from desk.app import create_app

    return create_app(GatewaySettings.model_construct()).openapi()
