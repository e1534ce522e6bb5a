"""`python -m gateway`: the gateway as its environment (HEADRACE_…) says."""

import logging
import socket
import sys
from collections.abc import Sequence

import uvicorn
from fastapi import FastAPI

from gateway.app import Background, create_app
from gateway.auth.setup import known_callers
from gateway.counts import Counts
from gateway.durable_log import DurableLog
from gateway.health import Health
from gateway.metrics import PRODUCER_REPLACEMENTS, Metrics
from gateway.node_numbers import NodeNumbers
from gateway.outcomes import Log
from gateway.raw_log import RawLog
from gateway.server import CannotListenError, listen, server_config
from gateway.spool import Spool
from gateway.spool_drain import SpoolDrain
from gateway.state_view import StateView
from gateway.view_process import ViewProcess
from shared.flow import load_flow
from shared.settings import WRONG_SETTINGS, GatewaySettings, WrongSetting, explain


def build(settings: GatewaySettings, admin_sockets: Sequence[socket.socket] = ()) -> FastAPI:
    flow = load_flow(settings.flow)
    raw_log = RawLog(settings, [endpoint.topic for endpoint in flow.endpoints])
    log: Log = raw_log
    background: list[Background] = [ViewProcess(settings), raw_log]
    spool = None
    if settings.spool_bytes_max:
        spool = Spool(settings.state_dir / "spool", settings.spool_bytes_max)
        log = DurableLog(raw_log, spool)
        background.append(SpoolDrain(raw_log, spool))
    state_view = StateView(settings.state_dir)
    health = Health(settings, flow, log, state_view, spool, raw_log.refusal)
    background.append(health)
    who = None
    if settings.ways_to_ask:
        who, kept = known_callers(settings)
        background.insert(0, kept)
    numbers = NodeNumbers(1)
    counts = Counts(numbers.row(0))
    metrics = Metrics(numbers, counts.row, spool)
    metrics.add_counter(PRODUCER_REPLACEMENTS, raw_log.replacements)
    background.append(metrics)
    return create_app(
        settings,
        flow,
        log,
        state_view,
        health,
        background,
        who,
        counts,
        metrics if settings.metrics else None,
        admin_sockets=admin_sockets,
    )


def main() -> int:
    try:
        settings = GatewaySettings()
        load_flow(settings.flow)
    except WRONG_SETTINGS as error:
        print(explain(error), file=sys.stderr)
        return 2
    try:
        sockets, admin_sockets = listeners(settings)
    except CannotListenError as error:
        print(error, file=sys.stderr)
        return 1
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # during an outage it writes several lines a second; what matters is said by raw_log
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        app = build(settings, admin_sockets)
    except WrongSetting as error:
        print(explain(error), file=sys.stderr)
        return 2
    uvicorn.Server(server_config(app, settings)).run(sockets)
    return 0


def listeners(settings: GatewaySettings) -> tuple[list[socket.socket], list[socket.socket]]:
    """Of the main port and, where there is one, of the admin port."""
    host = settings.gateway_host
    return (
        listen(host, settings.gateway_port, "HEADRACE_GATEWAY_PORT"),
        listen(host, settings.admin_port, "HEADRACE_ADMIN_PORT") if settings.admin_port else [],
    )


if __name__ == "__main__":
    sys.exit(main())
