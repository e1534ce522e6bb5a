"""The flow for programs: what its page shows."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from desk.api.answers import json
from desk.flow.health import GatewayHealth
from desk.flow.service import FlowDesk
from desk.web.access import gateway_token_of


def flow_api(flow: FlowDesk, health: GatewayHealth) -> APIRouter:
    router = APIRouter(prefix="/api/flow")

    @router.get("")
    def now(request: Request) -> Response:
        """Show the flow: rates, who is behind, what waits, and what is wrong."""
        found = health.ask(gateway_token_of(request))
        troubles = [one._asdict() for one in found.troubles]
        return json({**flow.now(), "health": {**found._asdict(), "troubles": troubles}})

    return router
