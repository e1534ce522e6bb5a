"""Snapshots by their keys for a program beside a gateway: out of that one's view, and from other
gateways where they are divided. It waits for them, so it is not for an event loop."""

import logging
import time
from collections.abc import Mapping

import httpx
import orjson

from gateway.state_view.holders import ranked
from gateway.state_view.parts import part_of, topic_of
from gateway.state_view.peer_protocol import NO_ANSWER, STATES_PATH, bearer, read
from gateway.state_view.reader import Found, Progress, StateView
from shared.errors import StaleMasterDataError
from shared.settings import GatewaySettings, Settings
from shared.settings.wrong_setting import WrongSetting
from shared.timestamps import now_ms

log = logging.getLogger(__name__)

_ANSWER_S = 1.0
_SILENT_FOR_S = 5.0
_LOOK_EVERY_S = 1.0


class Lookup:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._view = StateView(settings.state_dir)
        self._http: httpx.Client | None = None
        self._silent_until_s: dict[str, float] = {}
        self._looked_s = float("-inf")
        self._partitions: Mapping[str, int] = {}

    def find(self, topic: str, key: bytes) -> bytes | None:
        """StaleMasterDataError where it is divided and nobody who holds it answers."""
        partitions = self._divided().get(topic)
        if partitions is None:
            found = self._view.find(topic, key)[1]
        else:
            from gateway.kafka_writer.partition_of_key import partition_of  # with a whole client

            found = self._held_by_any(part_of(topic, partition_of(key, partitions)), key)
        return None if found is None else found.value

    def _held_by_any(self, part: str, key: bytes) -> Found | None:
        if not isinstance(self._settings, GatewaySettings):
            raise StaleMasterDataError("states are divided, and this program asks no gateways")
        here = self._view.find(part, key)
        if self._is_near(here[0], self._settings):
            return here[1]
        told = [here] if here[0].warm else []
        for url in ranked(self._view.gateways(), part):
            its = self._ask(url, part, key, self._settings)
            if its is not None and self._is_near(its[0], self._settings):
                return its[1]
            told += [its] if its else []
        if not told:
            raise StaleMasterDataError("no gateway that holds this state tells it now")
        return max(told, key=lambda one: one[0].caught_up_ms or 0)[1]

    @staticmethod
    def _is_near(progress: Progress, settings: GatewaySettings) -> bool:
        return progress.warm and now_ms() - (progress.caught_up_ms or 0) <= settings.near_ms

    def _ask(
        self, url: str, part: str, key: bytes, settings: GatewaySettings
    ) -> tuple[Progress, Found | None] | None:
        if time.monotonic() < self._silent_until_s.get(url, 0.0):
            return None
        asked = orjson.dumps({"keys": [(part, key.decode())]})
        try:
            http = self._http = self._http or _client(settings, url)
            answer = http.post(f"{url}{STATES_PATH}", content=asked)
            (told,) = orjson.loads(answer.raise_for_status().content)["states"]
            return None if told is None else read(told, now_ms())
        except WrongSetting as error:
            raise StaleMasterDataError(f"states are divided among gateways: {error}") from error
        except (httpx.HTTPError, httpx.InvalidURL, *NO_ANSWER) as error:
            log.info("%s does not tell the states it holds: %s", url, error)
            self._silent_until_s[url] = time.monotonic() + _SILENT_FOR_S
            return None

    def caught_up_ms(self, topic: str) -> int | None:
        """Up to when the gateway beside has read it: of a divided one its share, or now where it
        has none. None: it has not read all yet."""
        its = [one for part, one in self._view.progress().items() if topic_of(part) == topic]
        times = [one.caught_up_ms for one in its if one.warm and one.caught_up_ms is not None]
        return min(times, default=now_ms() if topic in self._divided() else None)

    def _divided(self) -> Mapping[str, int]:
        if time.monotonic() >= self._looked_s + _LOOK_EVERY_S:
            self._looked_s, self._partitions = time.monotonic(), self._view.divided()
        return self._partitions

    def close(self) -> None:
        self._view.close()
        if self._http is not None:
            self._http.close()


def _client(settings: GatewaySettings, url: str) -> httpx.Client:
    """`url`: of one of the gateways, which are all here or all elsewhere."""
    tls = settings.peer_tls(url)
    return httpx.Client(headers=bearer(settings), timeout=_ANSWER_S, verify=tls, trust_env=False)
