"""The payloads of a bucket's lines, each under a key of its own: a line that grows must not rewrite
those that it has. They are asked for and written many at once."""

from collections.abc import Iterator, Mapping

from clients.kafka.records import Payload
from stream_jobs.state.bulk_map_state import AT_ONCE, Key, ManyStates
from stream_jobs.waiting.codec import ident_text, payload_of
from stream_jobs.waiting.entry import Entry
from stream_jobs.waiting.line import Batch, Line

_OF_A_LINE = 4  # ahead of their turn: one that waits for master data needs but its first

_NEW_BYTES_MAX = 16 * 1024 * 1024


class KeptPayloads:
    def __init__(self, states: ManyStates) -> None:
        self._states = states
        self._known: dict[Key, bytes] = {}
        self._new: dict[Key, bytes] = {}
        self._new_bytes = 0
        self._gone: list[Key] = []
        self._orders: dict[str, list[Entry]] = {}  # of the lines that are being served

    def put(self, key: str, entry: Entry, letter: bytes) -> None:
        self._new[_name(key, entry)] = letter
        self._new_bytes += len(letter)
        if self._new_bytes > _NEW_BYTES_MAX:
            self.write()

    def remove(self, key: str, entry: Entry) -> None:
        name = _name(key, entry)
        self._new.pop(name, None)
        self._known.pop(name, None)
        self._gone.append(name)

    def look_ahead(self, lines: Mapping[str, Line], batch: Batch) -> None:
        """At what will be tried in this batch, if all goes well."""
        self._known.clear()
        self._orders = {key: line.in_order() for key, line in lines.items()}
        self._fetch(
            [
                _name(key, entry)
                for key, order in self._orders.items()
                for entry in order[:_OF_A_LINE]
                if not entry.parked and batch.is_ripe(entry.read_at)
            ]
        )

    def tried_next(self, lines: Mapping[str, Line], batch: Batch) -> Iterator[Payload]:
        """If all goes well; of what was looked ahead at, or has come in this batch."""
        for key, line in lines.items():
            for entry in line.in_order()[:_OF_A_LINE]:
                if entry.parked or not (
                    batch.is_ripe(entry.read_at) and entry.is_due(batch.time_ms)
                ):
                    break
                name = _name(key, entry)
                letter = self._new.get(name) or self._known.get(name)
                if letter is not None and entry.given_up_in is None:
                    yield payload_of(key, entry, letter)

    def payload(self, key: str, entry: Entry) -> Payload:
        name = _name(key, entry)
        letter = self._new.get(name) or self._known.pop(name, None)
        if letter is None:  # those of a full line are parked from its end on, and then it is tried
            self._fetch_from(key, entry)
            letter = self._known.pop(name)
        return payload_of(key, entry, letter)

    def write(self) -> None:
        self._states.remove(self._gone)
        self._states.put(self._new)
        self._gone, self._new, self._new_bytes = [], {}, 0

    def _fetch_from(self, key: str, entry: Entry) -> None:
        order = self._orders[key]
        at = [one.ident for one in order].index(entry.ident)
        self._fetch([_name(key, one) for one in order[at : at + AT_ONCE]])

    def _fetch(self, names: list[Key]) -> None:
        wanted = [name for name in names if name not in self._new and name not in self._known]
        for name, letter in zip(wanted, self._states.get(wanted), strict=True):
            if letter is not None:
                self._known[name] = letter


def _name(key: str, entry: Entry) -> Key:
    return "letter", key, ident_text(entry)
