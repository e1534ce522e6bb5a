"""States as a watcher saw them pass, and whether `at`, `version` and `history` say the same."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
import orjson
from confluent_kafka import Consumer

from shared.timestamps import to_rfc3339


class Seen(NamedTuple):
    version: int
    at_ms: int
    deleted: bool
    event_time_ms: int | None
    state: dict[str, Any]


class Watcher:
    """Sees each snapshot as it comes to the topic."""

    def __init__(self, kafka: str, topic: str) -> None:
        self.seen: dict[str, list[Seen]] = defaultdict(list)
        self._kafka, self._topic = kafka, topic
        self._ends = threading.Event()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            thread.join()

    def _watch(self) -> None:
        options = {"bootstrap.servers": self._kafka, "group.id": f"watcher-{time.time_ns()}"}
        consumer = Consumer({**options, "auto.offset.reset": "earliest"})
        consumer.subscribe([self._topic])
        while not self._ends.is_set():
            for message in consumer.consume(500, 0.2):
                assert message.error() is None
                id_ = (message.key() or b"").decode()
                self._note(id_, message.value() or b"{}", message.timestamp()[1])
        consumer.close()

    def _note(self, id_: str, value: bytes, at_ms: int) -> None:
        state = orjson.loads(value)
        meta = state.pop("_meta")
        of_id = self.seen[id_]
        if not of_id or meta["version"] > of_id[-1].version:
            deleted = meta.get("deleted", False)
            of_id.append(Seen(meta["version"], at_ms, deleted, meta["event_time_ms"], state))


def is_all_stored(http: httpx.Client, id_: str, seen: Sequence[Seen]) -> bool:
    page = http.get(f"/state/{id_}/history?limit=1").json()
    shown = http.get(f"/state/{id_}").json()
    newest = page["versions"][0]["version"] if page.get("versions") else None
    return bool(seen) and newest == shown.get("version") == seen[-1].version


def assert_told_as_seen(http: httpx.Client, id_: str, seen: Sequence[Seen]) -> int:
    """How many versions nobody has seen."""
    skipped = 0
    for number, one in enumerate(seen):
        then = seen[number + 1] if number + 1 < len(seen) else None
        last_ms = then.at_ms - 1 if then else one.at_ms
        questions = [f"version={one.version}"]
        if last_ms >= one.at_ms:  # else the next one came in the same millisecond
            questions += [f"at={to_rfc3339(at_ms)}" for at_ms in (one.at_ms, last_ms)]
        for question in questions:
            told = _told(http.get(f"/state/{id_}?{question}"))
            assert told == _as_seen(one), (question, told, one)
        if then and then.version > one.version + 1:
            skipped += then.version - one.version - 1
            never = _told(http.get(f"/state/{id_}?version={one.version + 1}"))
            assert never == "unknown_version", (one.version + 1, never)
    before = _told(http.get(f"/state/{id_}?at={to_rfc3339(seen[0].at_ms - 1)}"))
    assert before == "unknown_id", ("before the first", before)
    return skipped


def _told(answer: httpx.Response) -> Any:
    told = answer.json()
    if answer.status_code != 200:
        return told["code"]
    return [told[name] for name in ("version", "updated_at", "event_time", "state")]


def _as_seen(one: Seen) -> Any:
    if one.deleted:
        return "deleted"
    time = None if one.event_time_ms is None else to_rfc3339(one.event_time_ms)
    return [one.version, to_rfc3339(one.at_ms), time, one.state]


def assert_history(http: httpx.Client, id_: str, seen: Sequence[Seen]) -> None:
    found: list[dict[str, Any]] = []
    after = ""
    while after is not None:
        page = http.get(f"/state/{id_}/history?limit=4{after and '&next=' + after}")
        found += page.json()["versions"]
        after = page.json()["next"]
    found.reverse()
    told = [(one["version"], one["updated_at"]) for one in found]
    expected = [(one.version, to_rfc3339(one.at_ms)) for one in seen]
    assert told == expected, (told, expected)
    before: dict[str, Any] = {}
    for one, entry in zip(seen, found, strict=True):
        changed = {k: v for k, v in one.state.items() if k not in before or before[k] != v}
        kept = {"deleted": True} if one.deleted else {"changed": changed}
        assert kept.items() <= entry.items(), (entry, kept)
        before = one.state
