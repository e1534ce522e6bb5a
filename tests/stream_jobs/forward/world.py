"""A bucket of forward without Kafka, Spark or a network: its state, its hooks, a clock that a test
turns, and a server that answers as the test says."""

import pickle
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import orjson
import pytest
from pyspark.sql import Row

from clients.kafka.records import Outgoing
from shared.events.envelope import Position, event_headers, event_value
from shared.forwarding.answer import Answer, HookVerdict
from shared.forwarding.hook import Hook, Hooks, new_hook, record
from stream_jobs.forward import batch, bucket
from stream_jobs.forward.at_most_once import Begun
from stream_jobs.forward.bucket import BucketOfDeliveries, ForwardTask
from stream_jobs.forward.delivery import Delivery, Try
from stream_jobs.forward.line import NEVER_MS
from stream_jobs.forward.sender import LineRun, requests
from stream_jobs.state.bulk_map_state import States
from tests.builders import event_record
from tests.stream_jobs.forward.forward_oracle import Arrival

BEGAN_MS = 1_790_000_000_000
OK = Answer(200, 5)
DOWN = Answer(None, 5, "ConnectError")


class MapState(dict[Any, Any]):
    """As the map state of Spark answers."""

    def getValue(self, key: Any) -> Any:  # noqa: N802
        return self.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self[key] = value

    def removeKey(self, key: Any) -> None:  # noqa: N802
        self.pop(key, None)


class Handle:
    def __init__(self) -> None:
        self.states: dict[str, MapState] = {}

    def getMapState(self, name: str, *_schema: object) -> MapState:  # noqa: N802
        return self.states.setdefault(name, MapState())


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = BEGAN_MS
        self.hooks = Hooks()
        self.handle = Handle()
        self.answers: Callable[[Delivery], Answer] = lambda _: OK
        self.arrivals: dict[str, list[Arrival]] = {}
        self.tries = 0
        self.requests: list[list[str]] = []
        # the driver has begun with a batch that may have run before
        self.runs_again = False
        # whose answers no batch waits for
        self.is_slow: Callable[[Delivery], bool] = lambda _: False
        self.under_way: list[tuple[str, Try]] = []
        self.made: list[Outgoing] = []
        # a hook's limits let nothing go sooner
        self.not_before_ms = 0
        # hooks whose secret cannot be opened
        self.unsealed: set[str] = set()
        self.look_ms: int | None = None
        self._offset = 0
        monkeypatch.setattr(batch, "now_ms", lambda: self.now_ms)
        monkeypatch.setattr(bucket, "hook_feed", lambda _task: self)
        monkeypatch.setattr(bucket, "sender", lambda _task: self)
        monkeypatch.setattr(bucket, "runs_again", lambda _begun: self.runs_again)
        self.begun = Begun()

    def add(self, name: str = "alarms", **fields: Any) -> Hook:
        url = "https://example.org/in"
        hook = new_hook(**{"name": name, "url": url, "made_ms": BEGAN_MS, **fields})
        self.hooks.hear(name.encode(), record(hook))
        return hook

    # what a worker process asks

    def look(self) -> Hooks:
        return self.hooks

    def keys(self, hook: Hook, _now_ms: int) -> list[bytes]:
        if hook.name in self.unsealed:
            raise ValueError(f"the secret of {hook.name} was sealed with another key")
        return [b"key"]

    def send(self, runs: Sequence[LineRun]) -> None:
        for run in runs:
            if self.not_before_ms:
                run.not_before_ms = self.not_before_ms
                continue
            by_number = dict(run.deliveries)
            for number, events in requests(run):
                tried = 1 if run.tried else run.tries + 1
                together = [by_number[number + n] for n in range(len(events))]
                answers = [self.answers(one) for one in together]
                # one that cannot be taken spoils what came with it
                answer = next((a for a in answers if a.verdict is not HookVerdict.DONE), answers[0])
                self.tries += 1
                is_done = answer.verdict is HookVerdict.DONE
                self.requests.append([event.id for event in events])
                for event in events:
                    seen = Arrival(event.entity, event.id, is_done)
                    self.arrivals.setdefault(run.hook.name, []).append(seen)
                made = Try(number, events[0].id, tried, self.now_ms, answer, len(events))
                if any(self.is_slow(one) for one in together):
                    run.left = len(events)
                    self.under_way.append((run.key, made))
                    break
                run.tried.append(made)
                if not is_done:
                    break

    # what a test does

    def deliveries(
        self, *events: tuple[str, str], hook: str = "alarms", topic: str = "event.reading.v1"
    ) -> list[bytes]:
        """By entity and id."""
        found = []
        for entity, event_id in events:
            one = event_record(entity_id=entity, id=event_id)
            self._offset += 1
            place = Position(topic, 0, self._offset)
            value, headers = event_value(one), event_headers(one)
            delivery = Delivery(hook, place, entity.encode(), value, headers, self.now_ms)
            found.append(delivery.pack())
        return found

    def replays(self, *events: tuple[str, str]) -> list[bytes]:
        found = []
        for raw in self.deliveries(*events, topic="again.forward.v1"):
            one = Delivery.unpack(raw)
            found.append(one._replace(headers=[*one.headers, ("ce_replay", b"1")]).pack())
        return found

    def batch(
        self, deliveries: Sequence[bytes] = (), answers: Sequence[tuple[str, Try]] = ()
    ) -> list[Outgoing]:
        handler = BucketOfDeliveries(ForwardTask(None, None, self.begun))  # type: ignore[arg-type]
        handler.init(States(self.handle))  # type: ignore[arg-type]
        rows = iter([Row(packed=pickle.dumps((list(deliveries), list(answers))))])
        made = list(handler.handleInputRows((0,), rows, None))
        self.runs_again = False
        (told,) = (one for one in made if isinstance(one, Row))
        self.look_ms = told.look_ms
        records = [one for one in made if isinstance(one, Outgoing)]
        self.made += records
        for one in records:
            if one.topic == "hooks.v1":
                self.hooks.hear(one.key, one.value)
        return records

    def killed_batch(self, deliveries: Sequence[bytes] = ()) -> None:
        """It has sent what it sends, and Spark has none of it."""
        kept = deepcopy(self.handle.states)
        hooks, made = deepcopy(self.hooks), list(self.made)
        self.batch(deliveries)
        self.runs_again = True
        self.handle.states, self.hooks, self.made = kept, hooks, made

    def sleep_until_it_looks(self) -> None:
        assert self.look_ms is not None
        if self.look_ms < NEVER_MS:
            self.now_ms = max(self.now_ms, self.look_ms)

    def of(self, topic: str) -> list[Any]:
        return [orjson.loads(one.value or b"null") for one in self.made if one.topic == topic]

    @property
    def waiting(self) -> int:
        last = [one.value for one in self.made if one.topic == "gate.forward.v1"]
        return sum(orjson.loads(last[-1])["waiting"].values()) if last and last[-1] else 0
