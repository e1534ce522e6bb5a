"""`python -m gateway`: the gateway as its environment (HEADRACE_…) says."""

import sys

from gateway.node.node import Node
from gateway.server.worker import WRONG_SETTING, serve
from gateway.server.workers import keep_workers
from shared.flow import load_flow
from shared.settings import WRONG_SETTINGS, GatewaySettings, explain


def main() -> int:
    try:
        settings = GatewaySettings()
        load_flow(settings.flow)
        settings.make_folders()
        settings.check_peers(is_gateway=True)
    except WRONG_SETTINGS as error:
        print(explain(error), file=sys.stderr)
        return WRONG_SETTING
    return serve(settings, Node()) if settings.gateway_workers == 1 else keep_workers(settings)


if __name__ == "__main__":
    sys.exit(main())
