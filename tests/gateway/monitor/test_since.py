"""Since when something is wrong is known also where nobody has asked meanwhile."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import cast

from gateway.monitor.probes import KafkaProbe, KafkaSeen, Seen
from gateway.monitor.routes import Health
from gateway.state_view.reader import StateView
from shared.flow import FLOW
from shared.settings import GatewaySettings
from shared.timestamps import from_rfc3339
from tests.gateway.support import FakeLog, eventually


class Away:
    def look(self) -> KafkaSeen:
        return KafkaSeen(Seen(False, 0.0, "Kafka does not answer"))


def test_it_is_when_the_gateway_saw_it_first(tmp_path: Path) -> None:
    health = Health(GatewaySettings(state_dir=tmp_path), FLOW, FakeLog(), StateView(tmp_path))

    async def look_once() -> None:
        looking = asyncio.create_task(health._look_at_kafka(cast(KafkaProbe, Away())))
        await eventually(lambda: health._since._first_ms)
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking

    asyncio.run(look_once())
    asked_ms = time.time_ns() // 1_000_000
    time.sleep(0.05)
    checks = health.report()["checks"]
    assert from_rfc3339(checks["kafka:connection"][0]["since"]) <= asked_ms
    assert "since" not in checks["gateway:refused"][0]
    health.view.close()
