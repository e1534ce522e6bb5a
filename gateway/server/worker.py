"""`python -m gateway.server.worker`: one of a node's workers, started by `workers.py`; and how any
gateway is put together and served, the only one of its node included."""

import logging
import sys
from collections.abc import Sequence
from socket import socket

from fastapi import FastAPI

from gateway.auth.setup import known_callers
from gateway.ingest.durable_log import DurableLog
from gateway.log.kafka_log import RawLog
from gateway.log.outcome import Log
from gateway.monitor.metrics import PRODUCER_REPLACEMENTS, Metrics
from gateway.monitor.routes import Health
from gateway.node.node import WORKERS_READY, Node, SharedMemory
from gateway.node.parent_process import die_with_parent, leave_with_parent
from gateway.server.app import Background, create_app
from gateway.server.server import CannotListenError, GatewayServer, listen, server_config
from gateway.spool.drain import SpoolDrain
from gateway.spool.spool import Spool
from gateway.view.process import ViewProcess
from gateway.view.reader import StateView
from shared.flow import load_flow
from shared.settings import WRONG_SETTINGS, GatewaySettings, explain

WRONG_SETTING = 2  # exit codes
CANNOT_LISTEN = 1


def build(
    settings: GatewaySettings, node: Node | None = None, admin_sockets: Sequence[socket] = ()
) -> FastAPI:
    node = node or Node()
    flow = load_flow(settings.flow)
    topics = [*flow.ingest_topics]
    raw_log = RawLog(settings, topics)
    log: Log = raw_log
    background: list[Background] = [raw_log]
    if node.workers == 1:
        background.insert(0, ViewProcess(settings))
    spool = None
    if settings.spool_bytes_max:
        spool = Spool(settings.state_dir / "spool", settings.spool_bytes_max, topics)
        log = DurableLog(raw_log, spool)
        background.append(SpoolDrain(RawLog(settings, topics), spool))
    state_view = StateView(settings.state_dir)
    health = Health(settings, flow, log, state_view, spool, raw_log.refusal, node)
    background.append(health)
    who = None
    if settings.ways_to_ask:
        who, kept = known_callers(settings)
        background.insert(0, kept)
    traces = None
    if settings.otlp_endpoint is not None:
        from gateway.ingest.opentelemetry import Traces  # its libraries take a tenth of a second

        traces = Traces(settings)
        background.append(traces)
    metrics = Metrics(node, spool)
    metrics.add_counter(PRODUCER_REPLACEMENTS, raw_log.replacements)
    metrics.add_gauge(WORKERS_READY, lambda: log.is_healthy() and not node.is_ending)
    metrics.add_families(health.ledger)
    metrics.add_families(health.jobs_metrics)
    background.append(metrics)
    return create_app(
        settings,
        flow,
        log,
        state_view,
        health,
        background,
        who,
        node,
        metrics if settings.metrics else None,
        admin_sockets,
        traces,
    )


def serve(settings: GatewaySettings, node: Node) -> int:
    """The exit code; what is wrong is said on stderr."""
    try:
        sockets, admin_sockets = listeners(settings, shared=node.workers > 1)
        logging.basicConfig(
            level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        )
        # during an outage it writes several lines a second; what matters is said by raw_log
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        app = build(settings, node, admin_sockets)
        config = server_config(app, settings, node)
        GatewayServer(config, node, settings.shutdown_drain_s).run(sockets)
    except CannotListenError as error:
        print(error, file=sys.stderr)
        return CANNOT_LISTEN
    except WRONG_SETTINGS as error:
        print(explain(error), file=sys.stderr)
        return WRONG_SETTING
    return 0


def listeners(settings: GatewaySettings, *, shared: bool) -> tuple[list[socket], list[socket]]:
    """Of the main port and, where there is one, of the admin port."""
    host, admin_port = settings.gateway_host, settings.admin_port
    return (
        listen(host, settings.gateway_port, "HEADRACE_GATEWAY_PORT", shared=shared),
        listen(host, admin_port, "HEADRACE_ADMIN_PORT", shared=shared) if admin_port else [],
    )


def main() -> int:
    parent_pid, worker, *memory_fds = map(int, sys.argv[1:])
    die_with_parent()
    leave_with_parent(parent_pid)  # which may have ended before that
    settings = GatewaySettings()
    node = Node(worker, settings.gateway_workers, SharedMemory(*memory_fds))
    return serve(settings, node)


if __name__ == "__main__":
    sys.exit(main())
