"""`python -m desk`: keeps the index of dead letters, works on redrives, and serves the page."""

import logging
import signal
import sys
import threading

from desk import index, redrive
from shared.flow import load_flow
from shared.settings import WRONG_SETTINGS, GatewaySettings, explain

WRONG_SETTING = 2


def main() -> int:
    try:
        settings = GatewaySettings()
        load_flow(settings.flow)
    except WRONG_SETTINGS as error:
        print(explain(error), file=sys.stderr)
        return WRONG_SETTING
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    work = [threading.Thread(target=part.run, args=(settings, stop)) for part in (index, redrive)]
    for thread in work:
        thread.start()
    stop.wait()
    for thread in work:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
