"""GET /livez, /readyz and /health. Answered from memory: no request ever waits for a server."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson
from confluent_kafka import KafkaException
from fastapi import Request
from fastapi.routing import APIRoute
from prometheus_client.core import Metric
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from gateway.http.problems import Problem, retry_after
from gateway.kafka_writer.known_partitions import KnownPartitions
from gateway.kafka_writer.outcome import Log
from gateway.monitor import ledger_check
from gateway.monitor.causes import Since
from gateway.monitor.health_metrics import health_metrics
from gateway.monitor.job_metrics import job_metrics
from gateway.monitor.job_news import JobNews
from gateway.monitor.kafka_facts import KafkaFacts, look_at_facts
from gateway.monitor.probes import KafkaProbe, KafkaSeen, Seen, look_at_postgres
from gateway.monitor.report import Observation, report
from gateway.monitor.retention import RetentionLook, Unread
from gateway.node.node import Node
from gateway.node.refusals import RecentRefusals
from gateway.spool.spool import Spool
from gateway.state_view.reader import Progress, StateView
from shared.flow_table import Flow
from shared.settings import GatewaySettings
from shared.topic_names import VIEW_TOPICS, status_of_source

_logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/health+json"
RELAY = "relay"
_LOOK_EVERY_S = 1.5
_LOOK_AT_FACTS_EVERY_S = 20.0
_FACTS_OLD_S = 120.0
_STALE_S = 5.0
Answers = dict[int | str, dict[str, Any]]
_NOT_LOOKED = Seen(False, 0.0, "not looked at yet")


class Health:
    def __init__(
        self,
        settings: GatewaySettings,
        flow: Flow,
        log: Log,
        state_view: StateView,
        spool: Spool | None = None,
        refusal: Callable[[], str] = str,
        node: Node | None = None,
    ) -> None:
        self.jobs = (*(job.name for job in flow.jobs()), RELAY)
        self.sources = tuple(status_of_source(table.name) for table in flow.sourced_tables)
        self.lanes = flow.lanes
        self._topics = [topic.name for topic in flow.topics()]
        self._settings = settings
        self._log = log
        self.spool = spool
        self._refusal = refusal
        self._node = node or Node()
        self.view = state_view
        self.news = JobNews(state_view)
        self._kafka = KafkaSeen(_NOT_LOOKED)
        self._postgres = _NOT_LOOKED
        self._facts = KafkaFacts()
        self._unread: list[Unread] | None = None
        self._known = KnownPartitions(settings.state_dir, settings.widened_topics)
        self._ingest = [*flow.ingest_topics]
        self._read = {job.name: job.ignited_by for job in flow.jobs()}
        self._facts_seen_s = float("-inf")
        self._retention = RetentionLook(settings.kafka, self._read)
        self._refusals = RecentRefusals()
        self._since = Since()
        self._kafka_seen_s = self._postgres_seen_s = 0.0
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        probe = KafkaProbe(self._settings.kafka, self._topics, self.lanes)
        # several loops: a server that does not answer must not make the other's news old
        self._loops = [
            asyncio.create_task(self._look_at_kafka(probe)),
            asyncio.create_task(self._look_at_postgres()),
            asyncio.create_task(self._look_at_facts()),
        ]

    async def stop(self) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)

    def _read_on(self) -> dict[str, Progress]:
        """Without views, and versions of them, that the flow has no more: nobody reads them on."""
        return {
            topic: progress
            for topic, progress in self.view.progress().items()
            if not topic.startswith(VIEW_TOPICS) or topic in self._topics
        }

    def _trouble_of_division(self) -> str:
        return self.view.trouble_of_division() if self._settings.state_copies else ""

    def report(self) -> dict[str, Any]:
        now_s = time.monotonic()
        at_ms = time.time_ns() // 1_000_000
        workers_ready, seen = self._node.workers_ready(), self._kafka.partitions
        document = report(
            Observation(
                at_ms=at_ms,
                kafka=self._kafka._replace(
                    server=_fresh(self._kafka.server, self._kafka_seen_s, now_s)
                ),
                postgres=_fresh(self._postgres, self._postgres_seen_s, now_s),
                accepts=self._log.is_healthy() or (self._node.workers > 1 and workers_ready > 0),
                refusal=self._refusal(),
                workers=self._node.workers,
                workers_ready=workers_ready,
                refused=self._refusals.recent(self._node.numbers.sums()),
                spool=None if self.spool is None else self.spool.state(),
                view=self._read_on(),
                trouble_of_division=self._trouble_of_division(),
                job_statuses=self.news.words(),
                silent_ms=self.news.silent_ms(),
                lag_warn_s=self._settings.lag_warn_s,
                replication=self._settings.replication,
                configs=self._facts.configs,
                widened=self._known.widened({t: len(seen[t]) for t in self._ingest if t in seen}),
                unread=self._unread if now_s - self._facts_seen_s < _FACTS_OLD_S else None,
            ),
            self.jobs,
            self.lanes,
            self.sources,
        )
        self._since.tell({name: check for name, (check,) in document["checks"].items()}, at_ms)
        return document

    def spooled_s(self) -> float:
        """How long the oldest payload has waited that this node has accepted and Kafka has not."""
        return 0.0 if self.spool is None else self.spool.state().age_ms / 1000

    def ledger(self) -> Iterator[Metric]:
        said = self.news.words().get(ledger_check.KEEPER)
        return ledger_check.metrics(said, time.time_ns() // 1_000_000)

    def jobs_metrics(self) -> Iterator[Metric]:
        partitions = self._kafka.partitions
        read = {
            job: [(topic, str(p)) for topic in topics for p in partitions.get(topic, ())]
            for job, topics in self._read.items()
        }
        return job_metrics(self.news.statuses((*self.jobs, *self.sources)), read)

    def metrics(self) -> Iterator[Metric]:
        return health_metrics(self.report(), self._kafka.lane_written)

    async def _look_at_kafka(self, probe: KafkaProbe) -> None:
        while True:
            try:
                self._kafka = await asyncio.to_thread(probe.look)
                self._kafka_seen_s = time.monotonic()
                self.news.look()  # also while nobody asks: else it could not tell when they spoke
            except Exception:
                _logger.exception("could not look at Kafka")
            self._note_since()
            await asyncio.sleep(_LOOK_EVERY_S)

    def _note_since(self) -> None:
        """Also while nobody asks: else it could not tell since when something is wrong."""
        try:
            self.report()
        except Exception:
            _logger.exception("could not tell how things are")

    async def _look_at_postgres(self) -> None:
        url = self._settings.postgres_url.get_secret_value()
        while True:
            self._refusals.note(time.monotonic(), self._node.numbers.sums())
            try:
                self._postgres = await asyncio.to_thread(look_at_postgres, url)
                self._postgres_seen_s = time.monotonic()
            except Exception:
                _logger.exception("could not look at PostgreSQL")
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _look_at_facts(self) -> None:
        """Seldom: it changes slowly, and costs Kafka some requests."""
        while True:
            try:
                if self._kafka.server.works:
                    await asyncio.to_thread(self._see_facts)
            except KafkaException as error:
                _logger.info("could not look how near to its end what is unread is: %s", error)
            except Exception:
                _logger.exception("could not look at Kafka's topics")
            waits = _LOOK_AT_FACTS_EVERY_S if self._kafka.server.works else _LOOK_EVERY_S
            await asyncio.sleep(waits)

    def _see_facts(self) -> None:
        self._facts = look_at_facts(self._settings.kafka, self._kafka.partitions)
        if not self._facts.configs:
            return
        self._unread = self._retention.look(self._facts, self._kafka.partitions)
        self._facts_seen_s = time.monotonic()


def _fresh(seen: Seen, seen_s: float, now_s: float) -> Seen:
    """A look that has not come back is no good news."""
    if seen.works and now_s - seen_s > _STALE_S:
        return seen._replace(works=False, output="it was not seen for some seconds")
    return seen


def probe_routes(log: Log, node: Node) -> list[BaseRoute]:
    async def livez(_: Request) -> Response:
        return _answer({"status": "pass"}, 200)

    async def readyz(_: Request) -> Response:
        if node.is_ending:
            raise Problem(
                503,
                "ending",
                "this gateway is about to end: send what comes next to another one",
                headers=retry_after(1),
            )
        if not log.is_healthy():
            raise Problem(
                503,
                "not_ready",
                "Kafka is away and there is no room in a spool: the gateway takes no payloads",
                headers=retry_after(1),
            )
        return _answer({"status": "pass"}, 200)

    not_ready: Answers = {503: {"description": "Nobody should send payloads here now."}}
    return [_route("/livez", livez), _route("/readyz", readyz, not_ready)]


def health_routes(health: Health) -> list[BaseRoute]:
    async def whole(_: Request) -> Response:
        document = health.report()
        return _answer(document, 503 if document["status"] == "fail" else 200)

    fails: Answers = {503: {"description": "It fails: see `checks`.", "content": {MEDIA_TYPE: {}}}}
    return [_route("/health", whole, fails)]


class _Document(JSONResponse):
    media_type = MEDIA_TYPE


def _route(path: str, answer: Callable[..., Any], others: Answers | None = None) -> BaseRoute:
    return APIRoute(path, answer, methods=["GET"], response_class=_Document, responses=others)


def _answer(document: dict[str, Any], status: int) -> Response:
    headers = {"cache-control": "no-store"}
    return Response(orjson.dumps(document), status, headers, MEDIA_TYPE)
