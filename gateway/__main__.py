"""`python -m gateway`: the gateway as its environment (HEADRACE_…) says."""

import logging
import math
import sys

import uvicorn
from fastapi import FastAPI

from gateway.app import Background, create_app
from gateway.auth.credentials import Credentials
from gateway.auth.feed import CredentialFeed
from gateway.auth.who import Known
from gateway.durable_log import DurableLog
from gateway.health import Health
from gateway.outcomes import Log
from gateway.raw_log import RawLog
from gateway.spool import Spool
from gateway.spool_drain import SpoolDrain
from gateway.state_view import StateView
from gateway.view_process import ViewProcess
from shared.flow import load_flow
from shared.settings import WRONG_SETTINGS, GatewaySettings, explain


def build(settings: GatewaySettings) -> FastAPI:
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
    health = Health(settings, flow, log, state_view, spool)
    background.append(health)
    who = None
    if settings.ways_to_ask:
        credentials = Credentials()
        background.insert(0, CredentialFeed(settings.state_dir, credentials))
        who = Known(credentials)
    return create_app(settings, flow, log, state_view, health, background, who)


def server_config(app: FastAPI, settings: GatewaySettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.gateway_host,
        port=settings.gateway_port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_config=None,
        timeout_graceful_shutdown=math.ceil(settings.shutdown_grace_s),
    )


def main() -> int:
    try:
        settings = GatewaySettings()
        app = build(settings)
    except WRONG_SETTINGS as error:
        print(explain(error), file=sys.stderr)
        return 2
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # during an outage it writes several lines a second; what matters is said by raw_log
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    uvicorn.Server(server_config(app, settings)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
