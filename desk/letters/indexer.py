"""Dead-letter topics -> the index in PostgreSQL. How far it has come stands in the same transaction
as what it has read: the topics are the truth, and no outage of either makes it lose a letter."""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable

from clients.postgres import store
from desk.letters.index_store import LetterIndex
from desk.letters.topics import LetterLog, letter_of
from desk.prediction.fate import SnapshotLookup
from gateway.peers.lookup import Lookup
from shared.errors import StaleMasterDataError, StoreAwayError
from shared.events.envelope import Position
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.folding import snapshot
from shared.kafka_access import KafkaAwayError
from shared.settings import Settings
from stream_jobs.supervision.status import StatusReporter

_log = logging.getLogger(__name__)
_POLL_S = 0.5
_AGAIN_AFTER_S = 2.0
_NEW_PARTITIONS_S = 30.0
_SAY_EVERY_S = 2.0
_LOOKED_AT_MAX = 200


def run(settings: Settings, stop: threading.Event) -> None:
    """Until `stop` is set, whatever happens to PostgreSQL and Kafka meanwhile."""
    flow = load_flow(settings.flow)
    states = Lookup(settings)
    status = StatusReporter(settings, "desk")
    while not stop.is_set():
        try:
            with (
                store.connect(settings.postgres_url.get_secret_value(), "desk-index") as connection,
                LetterLog(settings) as log,
            ):
                book = LetterIndex(connection)
                follow(flow, log, book, states.find, status, stop.is_set)
        except (StoreAwayError, KafkaAwayError) as away:
            _log.warning("letters are not indexed now: %s", away)
        except Exception:
            _log.exception("letters could not be indexed, trying again")
        stop.wait(_AGAIN_AFTER_S)
    states.close()


def follow(
    flow: Flow,
    log: LetterLog,
    book: LetterIndex,
    snapshots: SnapshotLookup,
    status: StatusReporter,
    ends: Callable[[], bool],
) -> None:
    while not book.take_lead():
        if ends():
            return
        time.sleep(_POLL_S)
    look_again_s = say_again_s = 0.0
    while not ends():
        if time.monotonic() >= say_again_s:
            book.sum_counts_up()
            status.report("running", letters=book.undecided())
            say_again_s = time.monotonic() + _SAY_EVERY_S
        if time.monotonic() >= look_again_s:
            log.go_on_from(book.places())
            look_again_s = time.monotonic() + _NEW_PARTITIONS_S
        if not read_on(flow, log, book, _POLL_S):
            book.note_stored()
            note_folded(flow, book, snapshots)


def read_on(flow: Flow, log: LetterLog, book: LetterIndex, timeout_s: float) -> int:
    """How many records it has read."""
    records, places = log.read_on(timeout_s)
    if records:
        book.index([letter_of(flow, record) for record in records], places)
    return len(records)


def note_folded(flow: Flow, book: LetterIndex, snapshots: SnapshotLookup) -> None:
    """Marks as done what is under way to fold: an event that its entity's snapshot holds and does
    not call parked."""
    readers: dict[str, set[str]] = defaultdict(set)
    for entity in flow.entities:
        for name in entity.reads:
            readers[flow.event_type(name).topic].add(entity.topic)
    done = []
    for row in book.under_way_to("fold", _LOOKED_AT_MAX):
        digest = snapshot.id_digest(row["event_id"] or "")
        for topic in readers.get(Position.parse(row["origin"]).topic, ()):
            try:
                known = row["entity_id"] and snapshots(topic, row["entity_id"].encode())
            except StaleMasterDataError:  # known by other gateways, which do not answer
                continue
            now = snapshot.decode(known) if known else None
            if now and now.knows(digest) and row["event_id"] not in now.parked:
                done.append(row["id"])
                break
    if done:
        book.note_done(done)
