"""`python -m stream_jobs NAME…`: jobs by name, or `all` of them, in one Spark process; or a program
that needs no Spark."""

import logging
import signal
import sys
import threading
from collections.abc import Sequence

from shared.errors import StoreAwayError, WrongViewError
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.kafka_access import KafkaAwayError
from shared.settings import WRONG_SETTINGS, JobSettings, explain

_PLAIN = "relay", "topics", "migrate"


def main(names: Sequence[str]) -> int:
    """Each imports what it needs: all of it takes a second of a processor."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every call back from Spark
    plain = names[0] if len(names) == 1 and names[0] in _PLAIN else ""
    if not plain:
        from stream_jobs import driver

        if not driver.are_known(names):
            print(driver.USAGE, file=sys.stderr)
            return 2
    try:
        settings = JobSettings()
        flow = load_flow(settings.flow)
    except WRONG_SETTINGS as error:
        print(explain(error), file=sys.stderr)
        return 2
    if plain == "topics":
        return _make_topics(settings, flow)
    if plain == "migrate":
        return _migrate(settings, flow)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return _relay(settings, stop) if plain else driver.drive(names, settings, flow, stop)


def _relay(settings: JobSettings, stop: threading.Event) -> int:
    from stream_jobs import relay
    from stream_jobs.ledger import keeper
    from stream_jobs.master_sources import reader as sources

    threading.Thread(target=keeper.run, args=(settings, stop), daemon=True).start()
    sources.start(settings, stop)
    relay.run(settings, stop)
    return 0


def _make_topics(settings: JobSettings, flow: Flow) -> int:
    from clients.kafka.create_topics import ensure_topics

    try:
        for topic in ensure_topics(flow, settings):
            print(f"created {topic}")
    except KafkaAwayError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _migrate(settings: JobSettings, flow: Flow) -> int:
    from clients.postgres import master_data, schema, store
    from shared.tables.view_tables import table_of

    url = settings.postgres_url.get_secret_value()
    try:
        schema.migrate(url, [table_of(row) for row in flow.views if row.row is not None])
        if "device" in flow.master_tables:
            with store.connect(url, "migrate") as connection:
                master_data.seed(connection)
    except (StoreAwayError, WrongViewError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
