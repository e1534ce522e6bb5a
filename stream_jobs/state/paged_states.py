"""Snapshots in a map state of Spark's, many to a row where many are asked for together.

What a row costs is the way to it, several times what is done with it there. So the entities of a
bucket are shared out among pages, and where a batch has to do with many of a page, that is read
and written whole. A batch that has to do with few would carry the others for nothing: what it
writes are rows of the entities' own. Where an entity has such a row, that is its state, and what
its page may have is older; the next batch of many brings it into the page and removes the row.

Snapshots are much alike: a page is a seventh as large where it is packed, which costs less than to
bring the other six parts to Spark, which writes each page down several times.
"""

import pickle
import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from zlib import crc32

import orjson
import pyarrow as pa

from stream_jobs.state.bulk_map_state import AT_ONCE, Key, ManyStates

_PAGES = 256  # of a bucket
_PAGES_AT_ONCE = 4  # all that is in them is in memory
# so many of a page's entities are asked for where it is worth its way,
_ASKED_MIN = 8
# and for each of them it carries no more than this: so many cost as much as a row of its own
_CARRIED_MAX = 50
# one that is larger pays for its way itself, and hundreds of them were too much in one row
_LARGE_BYTES = 16 * 1024
# no entity has such a name, and no span of the burials
_COUNTS: Key = ("", "pages")

_PACKER = pa.Codec("lz4")
_SIZE = struct.Struct("!I")  # before it was packed

Page = dict[Key, bytes]


class PagedStates:
    """Between `begin` and `write` of one bucket at a time."""

    def __init__(self, states: ManyStates) -> None:
        self._states = states
        self._counts: _Counts

    def begin(self) -> None:
        self._counts = _Counts(self._states)
        self._is_by_page = False
        # of those that were found last
        self._with_row: set[Key] = set()
        self._pages: dict[int, Page] = {}

    def parts(self, keys: Iterable[Key]) -> Iterator[list[tuple[Key, bytes | None]]]:
        """Spark looks for the next ones while these are worked on; what becomes of them is put
        before the next ones are taken."""
        parts = self._parted(keys)
        asked = [self._ask(part) for part in parts[:1]]
        for part, following in zip(parts, [*parts[1:], []], strict=False):
            found = asked.pop()()
            asked.append(self._ask(following))
            yield list(zip(part, found, strict=True))

    def get(self, keys: Collection[Key]) -> list[bytes | None]:
        return self._ask(keys)()

    def put(self, values: Mapping[Key, bytes | None]) -> None:
        """Stores values of those that were found last, or are new, each once. None: it is no
        more."""
        largest = _LARGE_BYTES if self._is_by_page else 0
        rows = {key: value for key, value in values.items() if value and len(value) > largest}
        self._put_rows(rows)
        others = {key: value for key, value in values.items() if key not in rows}
        self._remove_rows(others.keys() & self._with_row)
        self._put_into_pages(others)

    def write(self) -> None:
        self._counts.write()

    def _parted(self, keys: Iterable[Key]) -> list[list[Key]]:
        by_page = _by_page(keys)
        # of a page few are in a part, or all: what lies in one place is read once
        in_order = list(chain.from_iterable(by_page.values()))
        carried = sum(self._counts.paged[page] for page in by_page)
        enough = max(_ASKED_MIN * len(by_page), carried / _CARRIED_MAX)
        self._is_by_page = len(in_order) >= enough
        if not self._is_by_page:
            return [in_order[at : at + AT_ONCE] for at in range(0, len(in_order), AT_ONCE)]
        pages = list(by_page.values())
        return [
            list(chain.from_iterable(pages[at : at + _PAGES_AT_ONCE]))
            for at in range(0, len(pages), _PAGES_AT_ONCE)
        ]

    def _ask(self, keys: Collection[Key]) -> Callable[[], list[bytes | None]]:
        counts, page_of = self._counts, {key: _page_of(key) for key in keys}
        maybe_rows = [key for key, page in page_of.items() if counts.rows[page]]
        # but one that is only for whoever has no row waits until that is known
        pages = {p for p in page_of.values() if self._is_by_page or not counts.rows[p]}
        rows_found, pages_found = self._states.ask(maybe_rows), self._ask_pages(pages)

        def found() -> list[bytes | None]:
            answers = zip(maybe_rows, rows_found(), strict=True)
            rows = {key: value for key, value in answers if value}
            missed = {page_of[key] for key in maybe_rows if key not in rows} - pages
            its_pages = {**pages_found(), **self._ask_pages(missed)()}
            self._with_row, self._pages = set(rows), its_pages
            return [
                rows[key] if key in rows else its_pages[page].get(key)
                for key, page in page_of.items()
            ]

        return found

    def _ask_pages(self, pages: Collection[int]) -> Callable[[], dict[int, Page]]:
        there = [page for page in pages if self._counts.paged[page]]
        answers = self._states.ask([_page_key(page) for page in there])

        def found() -> dict[int, Page]:
            read = zip(there, answers(), strict=True)
            return {page: {} for page in pages} | {p: _unpacked(raw) for p, raw in read if raw}

        return found

    def _put_rows(self, values: Mapping[Key, bytes]) -> None:
        self._states.put(values)
        self._counts.add_rows(values.keys() - self._with_row, 1)

    def _remove_rows(self, keys: set[Key]) -> None:
        self._states.remove(list(keys))
        self._counts.add_rows(keys, -1)

    def _put_into_pages(self, values: Mapping[Key, bytes | None]) -> None:
        by_page = _by_page(values)
        # where rows are asked for, a page may have been put since it was read
        pages = self._pages if self._is_by_page else self._ask_pages(by_page.keys())()
        changed: dict[int, Page] = {}
        for page, keys in by_page.items():
            now = pages[page] | {key: values[key] for key in keys}
            its = {key: value for key, value in now.items() if value is not None}
            if its != pages[page]:
                changed[page] = pages[page] = its
        self._counts.set_paged({page: len(its) for page, its in changed.items()})
        self._states.put({_page_key(p): _packed(its) for p, its in changed.items() if its})
        self._states.remove([_page_key(page) for page, its in changed.items() if not its])


class _Counts:
    """How many rows of their own the entities of a page have, and how many are in the page: where
    there is nothing, nothing is asked for."""

    def __init__(self, states: ManyStates) -> None:
        self._states = states
        self._asked = states.ask([_COUNTS])
        self._is_changed = False

    @cached_property
    def _known(self) -> list[list[int]]:
        (raw,) = self._asked()
        known: list[list[int]] = orjson.loads(raw) if raw else [[0] * _PAGES, [0] * _PAGES]
        return known

    @property
    def rows(self) -> list[int]:
        return self._known[0]

    @property
    def paged(self) -> list[int]:
        return self._known[1]

    def add_rows(self, keys: Iterable[Key], count: int) -> None:
        for key in keys:
            self.rows[_page_of(key)] += count
            self._is_changed = True

    def set_paged(self, counts: Mapping[int, int]) -> None:
        for page, count in counts.items():
            self._is_changed |= self.paged[page] != count
            self.paged[page] = count

    def write(self) -> None:
        if not self._is_changed:
            return
        if any(chain.from_iterable(self._known)):
            self._states.put({_COUNTS: orjson.dumps(self._known)})
        else:
            self._states.remove([_COUNTS])


def _by_page(keys: Iterable[Key]) -> dict[int, list[Key]]:
    found: dict[int, list[Key]] = defaultdict(list)
    for key in keys:
        found[_page_of(key)].append(key)
    return found


def _page_of(key: Key) -> int:
    # by the low bits its bucket was chosen
    return (crc32(key[1].encode()) >> 16) % _PAGES


def _page_key(page: int) -> Key:
    return "", f"page {page}"


def _packed(page: Page) -> bytes:
    raw = pickle.dumps(page, pickle.HIGHEST_PROTOCOL)
    return _SIZE.pack(len(raw)) + bytes(_PACKER.compress(raw, asbytes=True))


def _unpacked(packed: bytes) -> Page:
    (size,) = _SIZE.unpack_from(packed)
    raw = _PACKER.decompress(packed[_SIZE.size :], size, asbytes=True)
    page: Page = pickle.loads(raw)
    return page
