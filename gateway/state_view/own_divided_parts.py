"""The parts of the states that this gateway is among the first for, and until these have read them,
those that it holds already."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import httpx

from gateway.state_view.holders import ranked
from gateway.state_view.members import Members
from gateway.state_view.parts import is_divided, part_of
from gateway.state_view.peer_protocol import HELD_PATH, bearer
from shared.settings import GatewaySettings

log = logging.getLogger(__name__)

_ANSWER_S = 1.0
_STAY_EVERY_S, _LOOK_EVERY_S, _ASK_EVERY_S = 0.25, 2.0, 5.0


class OwnDividedParts:
    """Kafka and other gateways may take their time to answer: they are asked in threads."""

    def __init__(self, topics: Collection[str], settings: GatewaySettings) -> None:
        self._topics = topics
        self._own_url = settings.own_peer_url
        self._copies = settings.state_copies
        self._members = Members(settings.kafka, self._own_url)
        self._looks_s = float("-inf")
        self._http = httpx.Client(
            headers=bearer(settings),
            timeout=_ANSWER_S,
            verify=settings.peer_tls(self._own_url),
            trust_env=False,
        )
        self._held: Mapping[str, frozenset[str] | None] = {}  # None: it does not answer

    def watch(self) -> None:
        for step, every_s in ((self._stay, _STAY_EVERY_S), (self._ask_others, _ASK_EVERY_S)):
            threading.Thread(target=_again, args=(step, every_s), daemon=True).start()

    @property
    def gateways(self) -> Sequence[str]:
        return self._members.there

    @property
    def trouble(self) -> str:
        if not self._members.is_one:
            return (
                f"Kafka does not count this gateway, {self._own_url}, among those that divide "
                "states: it takes none that it does not hold"
            )
        if len(self.gateways) < self._copies:
            return (
                f"each state is to be held by {self._copies} gateways, but Kafka counts "
                f"{len(self.gateways)}"
            )
        held = self._held
        silent = [url for url in self.gateways if url in held and held[url] is None]
        return f"does not tell which states it holds: {', '.join(silent)}" if silent else ""

    def divides(self, topic: str) -> bool:
        return topic in self._topics

    def parts(self, topic: str, partitions: Collection[int]) -> Iterator[tuple[str, set[int]]]:
        if not self.divides(topic):
            yield topic, {*partitions}
            return
        for partition in sorted(partitions):
            yield part_of(topic, partition), {partition}

    def takes(self, part: str, *, is_held: bool) -> bool:
        if not is_divided(part):
            return True
        if not self._members.is_one:
            return is_held
        first = ranked(self.gateways, part)[: self._copies]
        if self._own_url in first:
            return True
        return is_held and not all(part in (self._held.get(url) or ()) for url in first)

    def _stay(self) -> None:
        self._members.stay()
        now_s = time.monotonic()
        if now_s >= self._looks_s or not self._members.is_one:
            self._looks_s = now_s + _LOOK_EVERY_S
            self._members.look()

    def _ask_others(self) -> None:
        others = [url for url in self.gateways if url != self._own_url]
        self._held = {url: self._ask(url) for url in others}

    def _ask(self, url: str) -> frozenset[str] | None:
        try:
            told = self._http.get(f"{url}{HELD_PATH}").raise_for_status().json()["parts"]
            return frozenset(map(str, told))
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
            log.info("%s does not say what it holds: %s", url, error)
            return None


def _again(step: Callable[[], None], every_s: float) -> None:
    while True:
        try:
            step()
        except Exception:
            log.exception("could not see which gateways there are")
        time.sleep(every_s)
