"""The flow as it is now: what each part says of itself, how fast records come on each topic, who is
behind, and what waits or is parked."""

from collections.abc import Collection, Mapping
from typing import Any

from clients.kafka.connect import answering
from clients.kafka.offsets import LogOffsets
from clients.postgres.store import answered_within
from desk.flow.arrows import Arrow, arrows
from desk.flow.shared_look import SharedLook
from desk.letters.audit import OpenBook
from desk.letters.selection import Selection
from desk.parts import GATEWAY, Part, parts
from desk.words import statuses, told
from gateway.monitor.job_status import JobStatus
from shared.consumer_groups import DESK
from shared.errors import StoreAwayError
from shared.flow import load_flow
from shared.kafka_access import KafkaAccess, KafkaAwayError
from shared.settings import Settings
from shared.timestamps import now_ms, to_rfc3339

RATE_S = 60
_KEPT_S = 1.0  # whoever looks meanwhile sees the same
_ANSWER_S = 5.0
_WITHIN_S = 2.0  # where a server hangs, the page has to say so soon


class FlowDesk:
    def __init__(self, settings: Settings, open_book: OpenBook) -> None:
        flow = load_flow(settings.flow)
        self._kafka = settings.kafka
        self._open_book = open_book
        self._parts, self._arrows = parts(flow), arrows(flow)
        self._flow = SharedLook(self._look, _WITHIN_S, _KEPT_S)
        self._letters = SharedLook(self._count_letters, _WITHIN_S, _KEPT_S)

    def now(self) -> dict[str, Any]:
        """KafkaAwayError where Kafka does not answer. Without PostgreSQL nobody knows what is
        parked: None."""
        try:
            seen = self._flow.get()
        except TimeoutError:
            away = f"Kafka at {self._kafka.bootstrap} does not answer within {_WITHIN_S:.0f} s"
            raise KafkaAwayError(away) from None
        return {**seen, "parked": self._parked()}

    def _look(self) -> dict[str, Any]:
        at_ms, topics = now_ms(), [topic for arrow in self._arrows for topic in arrow.topics]
        words = statuses(self._kafka, [part.name for part in self._parts])
        with answering(self._kafka):
            rates = _per_s(self._kafka, topics, at_ms)
        return {
            "at": to_rfc3339(at_ms),
            "parts": [_part(one, words.get(one.name)) for one in self._parts],
            "arrows": [_arrow(one, words, rates) for one in self._arrows],
        }

    def _parked(self) -> dict[str, int] | None:
        try:
            return self._letters.get()
        except (StoreAwayError, TimeoutError):
            return None

    def _count_letters(self) -> dict[str, int]:
        with self._open_book() as book, answered_within(book.connection, _ANSWER_S):
            groups = book.groups("stage", Selection(status="parked"))
        return {str(one["stage"]): one["letters"] for one in groups}


def _part(part: Part, word: JobStatus | None) -> dict[str, Any]:
    its = {"part": part.name, "does": part.does}
    if part.name == GATEWAY:  # it says so at /health, not on a topic
        return {**its, "state": None, "detail": "", "rows_per_s": None, "waiting": None}
    if word is None or word.is_silent:
        return {**its, **told(word), "rows_per_s": None, "waiting": None}
    waiting = sum(int(lane["payloads"]) for lane in word.lanes.values())
    return {
        **its,
        **told(word),
        "rows_per_s": word.number("rows_per_s"),
        "waiting": waiting if word.lanes else None,
    }


def _arrow(
    arrow: Arrow, words: Mapping[str, JobStatus], rates: Mapping[str, float]
) -> dict[str, Any]:
    known = [rates[topic] for topic in arrow.topics if topic in rates]
    return {
        "topics": arrow.topics,
        "per_s": round(sum(known), 1) if known else None,
        "written_by": arrow.written_by,
        "read_by": [_reader(arrow, job, words.get(job)) for job in arrow.read_by],
    }


def _reader(arrow: Arrow, job: str, word: JobStatus | None) -> dict[str, Any]:
    """None: it does not say."""
    if word is None or word.lag_records is None:
        return {"part": job, "behind_records": None, "behind_s": None}
    lags = [lag for (topic, _), lag in word.partitions.items() if topic in arrow.topics]
    ages_s = [lag.seconds for lag in lags if lag.seconds is not None]
    behind_s = max(ages_s, default=None if lags else 0.0)
    return {
        "part": job,
        "behind_records": int(sum(lag.records for lag in lags)),
        "behind_s": None if behind_s is None else round(behind_s, 1),
    }


def _per_s(kafka: KafkaAccess, topics: Collection[str], now_ms: int) -> dict[str, float]:
    """Over the last minute, of those topics that the desk may look at."""
    with LogOffsets(kafka, DESK) as log:
        places = log.partitions(topics)
        ends = log.ends(places)
        began = log.since(dict.fromkeys(places, now_ms - RATE_S * 1000))
    found: dict[str, float] = {}
    for (topic, partition), end in ends.items():
        first = began[topic, partition]
        came = 0 if first is None else end - first
        found[topic] = found.get(topic, 0.0) + max(came, 0) / RATE_S
    return found
