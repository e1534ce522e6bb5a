"""`python -m gateway.server.worker`: one of a node's workers, started by `workers.py`; and how any
gateway is served, the only one of its node included."""

import logging
import sys
from socket import socket

from gateway.node.node import Node, SharedMemory
from gateway.node.parent_process import leave_with_parent
from gateway.server.composition import parts_of, put_together
from gateway.server.server import CannotListenError, GatewayServer, listen, server_config
from shared.machine.parent_process import die_with_parent
from shared.settings import WRONG_SETTINGS, GatewaySettings, explain

WRONG_SETTING = 2  # exit codes
CANNOT_LISTEN = 1


def serve(settings: GatewaySettings, node: Node) -> int:
    """The exit code; what is wrong is said on stderr."""
    try:
        sockets, admin_sockets = listeners(settings, shared=node.workers > 1)
        logging.basicConfig(
            level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        )
        # during an outage it writes several lines a second; what matters is said by raw_log
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells of every request
        app, ingest, streams = put_together(parts_of(settings, node, admin_sockets))
        config = server_config(app, settings, node, ingest, streams)
        GatewayServer(config, node, settings.shutdown_drain_s).run(sockets)
    except CannotListenError as error:
        print(error, file=sys.stderr)
        return CANNOT_LISTEN
    except WRONG_SETTINGS as error:
        print(explain(error), file=sys.stderr)
        return WRONG_SETTING
    return 0


def listeners(settings: GatewaySettings, *, shared: bool) -> tuple[list[socket], list[socket]]:
    """The sockets of the main port and, where there is one, of the admin port."""
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
