"""The gateway as a process, a real broker behind a proxy, and all that is needed to hurt them."""

import asyncio
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import orjson
from confluent_kafka.admin import NewTopic

from shared.flow import FLOW
from tests.faults.broker import Broker
from tests.faults.proxy import Proxy
from tests.gateway.support import free_port


class GatewayUnderTest:
    gateway: "subprocess.Popen[bytes]"

    def __init__(self, folder: Path, bootstrap: str, settings: Mapping[str, object]) -> None:
        self.state_dir = folder / "gateway"
        self.state_dir.mkdir()
        self.port = free_port()
        self._log = (folder / "gateway.log").open("ab")
        self._environment = {
            **os.environ,
            "HEADRACE_KAFKA_BOOTSTRAP": bootstrap,
            "HEADRACE_POSTGRES_URL": "postgresql://headrace@127.0.0.1:1/headrace",
            "HEADRACE_STATE_DIR": str(self.state_dir),
            "HEADRACE_GATEWAY_PORT": str(self.port),
            **{f"HEADRACE_{name.upper()}": str(value) for name, value in settings.items()},
        }

    async def __aenter__(self) -> Self:
        await self.start_gateway()
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self.gateway.send_signal(signal.SIGCONT)
            self.gateway.kill()
            self.gateway.wait(10)
        self._log.close()

    async def start_gateway(self) -> None:
        command = [sys.executable, "-m", "gateway"]
        self.gateway = subprocess.Popen(
            command, env=self._environment, stdout=subprocess.DEVNULL, stderr=self._log
        )
        await self.until(lambda: self.ask("/livez") is not None, 120)

    async def end_gateway(self, number: int) -> None:
        self.gateway.send_signal(number)
        code = await asyncio.to_thread(self.gateway.wait, 30)
        if number == signal.SIGTERM:
            assert code in (0, -signal.SIGTERM), f"the gateway ended with {code}"

    async def healed(self) -> None:
        """Kafka takes payloads, and nothing waits on the disk any more."""
        await self.until(self._is_well, 120)

    def _is_well(self) -> bool:
        health = self.ask("/health")
        if health is None:
            return False
        depth = health["checks"]["spool:depth"][0]["observedValue"]
        return depth == 0 and health["checks"]["kafka:connection"][0]["status"] == "pass"

    def ask(self, path: str) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        with suppress(OSError, ValueError):
            try:
                with urllib.request.urlopen(request, timeout=3) as answer:
                    return orjson.loads(answer.read())
            except urllib.error.HTTPError as refusal:
                return orjson.loads(refusal.read())
        return None

    def resident_mib(self) -> float:
        with suppress(OSError, IndexError):
            status = Path(f"/proc/{self.gateway.pid}/status").read_text()
            return int(status.partition("VmRSS:")[2].split()[0]) / 1024
        return 0.0

    async def until(self, reached: Callable[[], object], within_s: float) -> None:
        async with asyncio.timeout(within_s):
            while not await asyncio.to_thread(reached):
                await asyncio.sleep(0.1)


class Rig(GatewayUnderTest):
    """With one broker, which it reaches through a proxy alone."""

    def __init__(self, folder: Path, **settings: object) -> None:
        proxied_port = free_port()
        super().__init__(folder, f"127.0.0.1:{proxied_port}", settings)
        self.broker = Broker(folder, proxied_port)
        self.proxy = Proxy(proxied_port, lambda: self.broker.behind_proxy_port)

    async def __aenter__(self) -> Self:
        self.broker.start()
        topics = [NewTopic(topic.name, 4, 1, config=topic.config) for topic in FLOW.topics()]
        await asyncio.to_thread(self.broker.create, topics)
        await self.proxy.start()
        return await super().__aenter__()

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        await self.proxy.stop()
        await asyncio.to_thread(self.broker.close)
