"""The application, made from its parts. Nothing registers itself behind the reader's back."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

from fastapi import FastAPI
from starlette.routing import Mount

from gateway import VERSION
from gateway.admission import Admission
from gateway.auth.guard import Guard
from gateway.auth.who import Who, Whoever
from gateway.health import Health, health_routes
from gateway.ingest import Ingest
from gateway.openapi import describe
from gateway.outcomes import Log
from gateway.problems import HANDLERS
from gateway.state import state_routes
from gateway.state_view import StateView
from shared.settings import GatewaySettings
from shared.topology import Flow


class Background(Protocol):
    """Something that runs as long as the application does."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def create_app(
    settings: GatewaySettings,
    flow: Flow,
    log: Log,
    state_view: StateView,
    health: Health,
    background: Sequence[Background] = (),
    who: Who | None = None,
) -> FastAPI:
    admission = Admission(settings.in_flight_requests_max, settings.in_flight_bytes_max)
    ingest = Ingest(flow, log, admission, settings, who or Whoever())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for part in background:
                await part.start()
                stack.push_async_callback(part.stop)
            yield

    app = FastAPI(
        title="Headrace",
        version=VERSION,
        routes=[
            Mount("/v1", app=ingest),  # first: the hot path passes no other route
            *state_routes(flow, state_view),
            *health_routes(health, log),
        ],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
        docs_url="/docs" if settings.docs else None,
        redoc_url=None,
        openapi_url="/openapi.json" if settings.docs else None,
        redirect_slashes=False,
        # merely asking at each request whether these are on costs a fifth of it
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    if who is not None:
        app.add_middleware(Guard, who=who)
    describe(app, flow, settings)
    return app
