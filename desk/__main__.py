"""`python -m desk`: keeps the index of dead letters, works on redrives, and serves the page."""

import logging
import signal
import sys
import threading

import uvicorn

from desk.app import create_app
from desk.letters import indexer, redrive
from gateway.server.server import CannotListenError, listen, server_config
from shared.flow import load_flow
from shared.settings import WRONG_SETTINGS, GatewaySettings, explain

WRONG_SETTING = 2  # exit codes
CANNOT_LISTEN = 1


def main() -> int:
    try:
        settings = GatewaySettings()
        load_flow(settings.flow)
        settings.make_folders()
        settings.check_peers(is_gateway=False)
        sockets = listen(settings.desk_host, settings.desk_port, "HEADRACE_DESK_PORT")
        app = create_app(settings)
    except WRONG_SETTINGS as error:
        print(explain(error), file=sys.stderr)
        return WRONG_SETTING
    except CannotListenError as error:
        print(error, file=sys.stderr)
        return CANNOT_LISTEN
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells of every request
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # which the server hands on when it has ended
        signal.signal(number, lambda *_: stop.set())
    work = [threading.Thread(target=part.run, args=(settings, stop)) for part in (indexer, redrive)]
    for thread in work:
        thread.start()
    try:
        uvicorn.Server(server_config(app, settings)).run(sockets)  # until SIGTERM or SIGINT
    finally:
        stop.set()
        for thread in work:
            thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
