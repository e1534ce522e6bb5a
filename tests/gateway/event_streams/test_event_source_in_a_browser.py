"""A browser's `EventSource`: it reads, comes again by itself, and reads no other origin."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.run.stack import Stack
from tests.desk import browser
from tests.desk.browser import Browser
from tests.gateway.event_streams.support import Writer
from tests.gateway.event_streams.test_real_event_streams import a_device, readings
from tests.gateway.support import GatewayProcess, until

pytestmark = [pytest.mark.stack, browser.needed("EVENT STREAMS ARE")]
_READ = """
    window.seen = []; window.opened = 0;
    window.events = new EventSource(arguments[0]);
    events.onopen = () => window.opened++;
    events.onmessage = (message) => seen.push(JSON.parse(message.data).id);
"""


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "chromium") as chromium:
        yield chromium


def test_it_reads_and_comes_again_where_it_was(
    broker: Stack, chromium: Browser, tmp_path: Path
) -> None:
    writer, device = Writer(broker.kafka_bootstrap), a_device()
    records = readings(device, 9)
    with GatewayProcess(broker.kafka_bootstrap, tmp_path / "one") as gateway:
        chromium.open(f"http://127.0.0.1:{gateway.port}/livez")
        chromium.run(_READ, f"/v1/events?entity={device}")
        until(lambda: chromium.run("return opened") == 1, 10)

        def has_seen(number: int) -> bool:
            return chromium.run("return seen") == [record.id for record in records[:number]]

        writer.write(*records[:3])
        until(lambda: has_seen(3), 10)
        gateway.kill()
        writer.write(*records[3:6])
        gateway.start()
        until(lambda: has_seen(6), 20)
        gateway.stop()  # with a last word
        gateway.start()
        until(lambda: chromium.run("return opened") == 3, 20)
        writer.write(*records[6:])
        until(lambda: has_seen(9), 10)


def test_it_reads_no_events_of_another_origin(
    broker: Stack, chromium: Browser, tmp_path: Path
) -> None:
    with (
        GatewayProcess(broker.kafka_bootstrap, tmp_path / "one") as one,
        GatewayProcess(broker.kafka_bootstrap, tmp_path / "other") as other,
    ):
        chromium.open(f"http://127.0.0.1:{other.port}/livez")
        chromium.run(_READ, f"http://127.0.0.1:{one.port}/v1/events")
        until(lambda: chromium.run("return events.readyState") == 2, 10)
        assert chromium.run("return opened") == 0
