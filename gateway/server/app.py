"""The application, made from its parts. Nothing registers itself behind the reader's back."""

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

from fastapi import FastAPI
from starlette.routing import BaseRoute

from gateway.auth.asgi_guard import Guard
from gateway.auth.who import Who, Whoever
from gateway.http.problems import HANDLERS
from gateway.ingest.accept import Ingest
from gateway.ingest.admission import Admission
from gateway.ingest.span import Tracing, Untraced
from gateway.log.outcome import Log
from gateway.monitor.metrics import IN_FLIGHT_BYTES, IN_FLIGHT_PAYLOADS, Metrics, metrics_routes
from gateway.monitor.routes import Health, health_routes, probe_routes
from gateway.node.node import Node
from gateway.node.rate_limits import rate_limits
from gateway.server.admin_port import AdminPort
from gateway.server.openapi import describe
from gateway.server.server import INGEST
from gateway.state.event_tail_reader import TailFollower
from gateway.state.fresh import FreshStates
from gateway.state.pipeline_lag import Pipeline
from gateway.state.route import state_routes
from gateway.view.reader import StateView
from shared import VERSION
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
    node: Node | None = None,
    metrics: Metrics | None = None,
    admin_sockets: Sequence[socket.socket] = (),
    tracing: Tracing | None = None,
) -> FastAPI:
    """Where there are `admin_sockets`, devices find on their port what is for them and no more."""
    node = node or Node()
    follower = TailFollower(
        settings.kafka,
        settings.state_dir,
        flow.folded_topics,
        [entity.topic for entity in flow.entities],
        settings.fresh_tail_bytes_max,
    )
    background = (*background, follower)
    admission = Admission(
        settings.in_flight_requests_max,
        settings.in_flight_bytes_max,
        settings.in_flight_share_max,
        settings.trusted_proxies,
    )
    ingest = Ingest(
        flow,
        log,
        admission,
        settings,
        who or Whoever(),
        node.counts,
        rate_limits(settings, node.buckets),
        tracing or Untraced(),
    )
    if metrics is not None:
        metrics.add_gauge(IN_FLIGHT_PAYLOADS, lambda: admission.payloads)
        metrics.add_gauge(IN_FLIGHT_BYTES, lambda: admission.bytes)
    fresh = FreshStates(flow, follower, settings.id_ring_size, settings.fresh_events_max)
    device_routes: list[BaseRoute] = [
        *state_routes(
            flow,
            state_view,
            fresh,
            Pipeline(flow, health.news, health.spooled_s),
            settings.stale_after_s,
        ),
        *probe_routes(log, node),
    ]
    admin_routes = [*health_routes(health), *(metrics_routes(metrics) if metrics else [])]
    every_route = [*device_routes, *admin_routes]
    if admin_sockets:
        admin = _app([*admin_routes, *probe_routes(log, node)], who, docs=settings.docs)
        describe(admin, every_route, flow, settings)
        background = (*background, AdminPort(admin, settings, admin_sockets, node))
        app = _app(device_routes, who, docs=False, background=background)
    else:
        app = _app(every_route, who, docs=settings.docs, background=background)
        describe(app, every_route, flow, settings)
    setattr(app.state, INGEST, ingest)  # the connections give it its requests: see post_request.py
    return app


def _app(
    routes: Sequence[BaseRoute],
    who: Who | None,
    *,
    docs: bool,
    background: Sequence[Background] = (),
) -> FastAPI:
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
        routes=[*routes],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
        docs_url="/docs" if docs else None,
        redoc_url=None,
        openapi_url="/openapi.json" if docs else None,
        redirect_slashes=False,
        # merely asking at each request whether these are on costs a fifth of it
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    if who is not None:
        app.add_middleware(Guard, who=who)
    return app
