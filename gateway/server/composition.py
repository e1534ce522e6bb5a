"""All parts of a gateway process: what there is, and who gets what. Nothing registers itself behind
the reader's back."""

from collections.abc import Sequence
from socket import socket
from typing import Any, NamedTuple

from fastapi import FastAPI
from starlette.routing import BaseRoute

from gateway.auth.authenticate import Authenticator, NoAuthentication
from gateway.auth.setup import known_callers
from gateway.effects.places import Places
from gateway.effects.waiting_posts import WaitingPosts
from gateway.event_streams.streams import EventStreams
from gateway.history.route import History, history_routes
from gateway.history.store import HistoryStore
from gateway.ingest.accept import Ingest
from gateway.ingest.admission import Admission
from gateway.ingest.durable_log import DurableLog
from gateway.ingest.span import Tracing
from gateway.kafka_writer.kafka_log import KafkaLog
from gateway.kafka_writer.outcome import Log
from gateway.lists.reader import ListReader
from gateway.lists.route import list_routes
from gateway.monitor.health_metrics import certificate_metrics
from gateway.monitor.metrics import (
    EVENT_STREAMS,
    IN_FLIGHT_BYTES,
    IN_FLIGHT_PAYLOADS,
    PRODUCER_REPLACEMENTS,
    VIEW_STREAMS,
    WAITING_REQUESTS,
    Metrics,
    metrics_routes,
)
from gateway.monitor.routes import Health, health_routes, probe_routes
from gateway.monitor.view_metrics import view_metrics
from gateway.node.node import WORKERS_READY, Node
from gateway.node.rate_limits import rate_limits
from gateway.peers.route import peer_routes
from gateway.peers.states import States
from gateway.server.admin_port import AdminPort
from gateway.server.app import Background, application
from gateway.server.openapi import describe
from gateway.spool.drain import SpoolDrain
from gateway.spool.spool import Spool
from gateway.state.event_tail_reader import TailFollower
from gateway.state.fresh import FreshStates
from gateway.state.pipeline_lag import Pipeline
from gateway.state.read_after import ReadAfter
from gateway.state.route import state_routes
from gateway.state_view.process import ViewProcess
from gateway.state_view.reader import StateView
from gateway.streams.streams import Streams
from gateway.views.change_streams import ChangeStreams
from gateway.views.route import view_routes
from gateway.whereabouts.route import Events, event_routes
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.settings import GatewaySettings


class Parts(NamedTuple):
    """Those that reach out of the process or depend on a setting: tests put others in their place.
    Where there are `admin_sockets`, devices find on their port what is for them and no more."""

    settings: GatewaySettings
    flow: Flow
    node: Node
    log: Log
    view: StateView
    health: Health
    background: Sequence[Background] = ()
    who: Authenticator | None = None
    metrics: Metrics | None = None
    tracing: Tracing | None = None
    admin_sockets: Sequence[socket] = ()


class Gateway(NamedTuple):
    app: FastAPI
    # to both of which connections give requests past the application
    ingest: Ingest
    streams: Sequence[Streams[Any]]


def parts_of(settings: GatewaySettings, node: Node, admin_sockets: Sequence[socket] = ()) -> Parts:
    flow = load_flow(settings.flow)
    topics = [*flow.posted_topics]
    kafka = KafkaLog(settings, topics)
    log: Log = kafka
    spool = durable = drain = who = credentials = traces = None
    if settings.spool_bytes_max:
        spool = Spool(settings.state_dir / "spool", settings.spool_bytes_max, topics)
        log = durable = DurableLog(kafka, spool)
        drain = SpoolDrain(KafkaLog(settings, topics), spool)
    view = StateView(settings.state_dir)
    writer = ViewProcess(settings) if node.workers == 1 else None
    health = Health(settings, flow, log, view, spool, kafka.refusal, node)
    if settings.ways_to_ask:
        who, credentials = known_callers(settings)
    if settings.otlp_endpoint is not None:
        from gateway.ingest.opentelemetry import Traces  # its libraries take a tenth of a second

        traces = Traces(settings)
    metrics = Metrics(node, spool)
    metrics.add_counter(PRODUCER_REPLACEMENTS, kafka.replacements)
    metrics.add_gauge(WORKERS_READY, lambda: log.is_healthy() and not node.is_ending)
    metrics.add_families(health.ledger)
    metrics.add_families(health.jobs_metrics)
    metrics.add_families(health.metrics)
    if settings.tls_cert_file is not None:
        from gateway.http.certificate_ends import certificate_ends  # nobody else needs its library

        metrics.add_families(lambda: certificate_metrics(certificate_ends(settings)))
    metrics.add_families(lambda: view_metrics(flow.views, health.news, view))
    # in the order in which they start; they stop the other way round
    starting: list[Background | None] = [credentials, writer, kafka, durable]
    starting += [drain, health, traces, metrics]
    background = [part for part in starting if part is not None]
    shown = metrics if settings.metrics else None
    return Parts(
        *(settings, flow, node, log, view, health),
        *(background, who, shown, traces, admin_sockets),
    )


def _states(view: StateView, settings: GatewaySettings) -> States:
    if not settings.state_copies:
        return States(view)
    from gateway.peers.divided import DividedStates  # with a client of HTTP

    return DividedStates(view, settings)


def put_together(parts: Parts) -> Gateway:
    settings, flow, node, log, view, health, background, who, metrics, tracing, sockets = parts
    admission = Admission(
        settings.in_flight_payloads_max,
        settings.in_flight_bytes_max,
        settings.in_flight_share_max,
        settings.trusted_proxies,
    )
    limits = rate_limits(settings, node.buckets)
    who_asks, traced = who or NoAuthentication(), tracing or Tracing()
    places = Places(settings.waiting_posts_max)
    states = _states(view, settings)
    waiting = WaitingPosts(settings, flow, states, places)
    ingest = Ingest(
        *(flow, log, admission, settings, who_asks),
        *(node.counts, limits, traced, waiting),
    )
    event_streams = EventStreams(settings, flow, who_asks, node)
    changes = ChangeStreams(settings, flow, who_asks, node, view)
    streams: list[Streams[Any]] = [event_streams, changes] if flow.views else [event_streams]
    tail = TailFollower(settings, flow)
    fresh = FreshStates(flow, tail, settings.id_ring_size, settings.fresh_events_max)
    pipeline = Pipeline(flow, health.news, health.spooled_s)
    lists = ListReader(settings.state_dir)
    read_after = ReadAfter(states, settings.wait_max_s, places)
    rows = HistoryStore(settings.postgres_url.get_secret_value())
    history = History(flow, states, rows, settings.why_events_max)
    events = Events(settings, flow, health.spool, states)
    for_devices: list[BaseRoute] = [
        *event_routes(events),
        *history_routes(flow, history),
        *list_routes(flow, lists, states, pipeline, settings.stale_after_s),
        *state_routes(flow, states, fresh, history, pipeline, settings.stale_after_s, read_after),
        *view_routes(flow, view, health.news, pipeline, settings.stale_after_s),
        *probe_routes(log, node),
        *(peer_routes(settings, view) if settings.state_copies else []),
    ]
    for_operators = health_routes(health)
    if metrics is not None:
        metrics.add_gauge(IN_FLIGHT_PAYLOADS, lambda: admission.payloads)
        metrics.add_gauge(IN_FLIGHT_BYTES, lambda: admission.bytes)
        metrics.add_gauge(EVENT_STREAMS, lambda: event_streams.count)
        metrics.add_gauge(VIEW_STREAMS, lambda: changes.count)
        metrics.add_gauge(WAITING_REQUESTS, lambda: places.taken)
        for_operators += metrics_routes(metrics)
    every_route = [*for_devices, *for_operators]
    background = [*background, states, tail, event_streams, changes, waiting, lists, events]
    if sockets:
        described = application([*for_operators, *probe_routes(log, node)], who, docs=settings.docs)
        background.append(AdminPort(described, settings, sockets, node))
        app = application(
            for_devices,
            who,
            docs=False,
            background=background,
            page_origins=settings.page_origins,
        )
    else:
        app = described = application(
            every_route,
            who,
            docs=settings.docs,
            background=background,
            page_origins=settings.page_origins,
        )
    describe(described, every_route, flow, settings)
    return Gateway(app, ingest, streams)
