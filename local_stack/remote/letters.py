"""Letters of a desk elsewhere, what waits there, and where an event is."""

import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from desk.letters.redrive import Sent
from desk.letters.redrive_store import Redrive
from desk.letters.redrive_target import ResendError, Rewrite
from desk.letters.selection import Selection
from desk.waiting.service import Page
from local_stack.remote.asking import RefusedError, RemoteDesk
from local_stack.terminal.errors import StackError

_IDS_MAX = 100
_PAGE_MAX = 1000
_WAITING_MAX = 10_000


@dataclass(frozen=True)
class RemoteTrial:
    document: dict[str, Any]

    def told(self) -> dict[str, Any]:
        return self.document


class RemoteLetters:
    """`by`: the desk knows whose token it is."""

    def __init__(self, desk: RemoteDesk) -> None:
        self._desk = desk
        self.book = RemoteBook(desk)
        self.redrives = RemoteRedrives(desk)

    def show(self, letter: str) -> dict[str, Any]:
        return dict(self._desk.get("letters", letter))

    def try_again(self, letter: str, change: Rewrite | None = None) -> RemoteTrial:
        try:
            document = self._changed(letter, change)
        except ResendError as error:
            raise StackError(str(error), "nothing was changed") from error
        return RemoteTrial(self._desk.post("letters", letter, "try", document=document))

    def redrive(self, ids: Sequence[str], by: str, change: Rewrite | None = None) -> Sent:  # noqa: ARG002
        if change is None:
            return Sent(**self._desk.post("redrives", document={"ids": [*ids]}))
        sent, refusals = list[str](), dict[str, str]()
        for letter in ids:
            try:
                document = {"ids": [letter], **self._changed(letter, change)}
            except (ResendError, RefusedError) as error:
                refusals[letter] = error.what if isinstance(error, RefusedError) else str(error)
                continue
            one = Sent(**self._desk.post("redrives", document=document))
            sent += one.ids
            refusals |= one.refusals
        return Sent(sent, refusals)

    def redrive_changed(
        self,
        selection: Selection,
        by: str,
        change: Rewrite,
        how: str,  # noqa: ARG002
        per_second: float,
    ) -> Iterator[Sent]:
        """One after the other: what changes them is on this machine."""
        up_to = selection.up_to or self.book.mark()
        meant, after = selection._replace(status="parked", up_to=up_to), None
        while True:
            rows, after = self.book.page(meant, _IDS_MAX, after)
            for row in rows:
                began_s = time.monotonic()
                yield self.redrive([row["id"]], by, change)
                time.sleep(max(0.0, 1 / per_second - (time.monotonic() - began_s)))
            if after is None:
                return

    def _changed(self, letter: str, change: Rewrite | None) -> dict[str, str]:
        """As the desk takes other bytes."""
        if change is None:
            return {}
        value = change(self._desk.bytes_at("letters", letter, "bytes"))
        return {"base64": b64encode(value).decode()}


class RemoteBook:
    def __init__(self, desk: RemoteDesk) -> None:
        self._desk = desk

    def groups(self, by: str, meant: Selection, limit: int) -> list[dict[str, Any]]:
        some = min(limit, _PAGE_MAX)
        return list(self._desk.get("groups", by=by, limit=some, **filters_of(meant))["groups"])

    def mark(self) -> str:
        return str(self._desk.get("letters", limit=1)["up_to"])

    def page(
        self, meant: Selection, limit: int, after: str | None = None
    ) -> tuple[list[dict[str, Any]], str | None]:
        rows: list[dict[str, Any]] = []
        while True:
            some = min(limit - len(rows), _PAGE_MAX)
            found = self._desk.get("letters", limit=some, after=after, **filters_of(meant))
            rows, after = rows + found["letters"], found["next"]
            if after is None or len(rows) >= limit:
                return rows, after

    def discard(self, meant: Selection, by: str, reason: str) -> int:  # noqa: ARG002
        wanted = {**_meant(meant), "reason": reason}
        return int(self._desk.post("discards", document=wanted)["discarded"])

    def audit(self, limit: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        while len(rows) < limit:
            before = rows[-1]["seq"] if rows else None
            some = min(limit - len(rows), _PAGE_MAX)
            found = self._desk.get("audit", limit=some, before=before)["audit"]
            rows += found
            if len(found) < some:
                break
        return rows


class RemoteRedrives:
    def __init__(self, desk: RemoteDesk) -> None:
        self._desk = desk

    def begin(self, meant: Selection, per_second: float, by: str) -> Redrive:  # noqa: ARG002
        wanted = {**_meant(meant), "per_second": per_second}
        return _redrive(self._desk.post("redrives", document=wanted))

    def latest(self) -> list[Redrive]:
        return [_redrive(told) for told in self._desk.get("redrives")["redrives"]]

    def find(self, number: int) -> Redrive | None:
        return _redrive(self._desk.get("redrives", str(number)))

    def change(self, number: int, status: str, by: str) -> Redrive | None:  # noqa: ARG002
        verb = "stop" if status == "stopped" else "resume"
        return _redrive(self._desk.post("redrives", str(number), verb))


class RemoteWaiting:
    def __init__(self, desk: RemoteDesk, stage: str | None) -> None:
        self._desk, self._stage = desk, stage

    def page(self, limit: int, after: str | None, reason: str | None) -> Page:
        some = min(limit, _WAITING_MAX)
        found = self._desk.get("waiting", limit=some, after=after, reason=reason, stage=self._stage)
        return Page(found["waiting"], found["next"])

    def show(self, entity: str) -> dict[str, Any]:
        return dict(self._desk.get("waiting", entity, stage=self._stage))

    def order(self, what: str, entities: Sequence[str], reason: str | None, by: str) -> int:  # noqa: ARG002
        wanted = {"order": what, "entities": [*entities], "reason": reason, "stage": self._stage}
        return int(self._desk.post("waiting", document=wanted)["ordered"])


class RemoteWhereabouts:
    def __init__(self, desk: RemoteDesk) -> None:
        self._desk = desk

    def find(self, event_id: str, place: str | None) -> dict[str, Any]:
        return dict(self._desk.get("events", event_id, place=place))


def _meant(meant: Selection) -> dict[str, Any]:
    if len(meant.ids) > _IDS_MAX:
        raise StackError(
            f"a desk elsewhere takes up to {_IDS_MAX} ids at once", "name fewer, or give a filter"
        )
    return {**filters_of(meant), "everything": meant.is_all}


def filters_of(meant: Selection) -> dict[str, Any]:
    """A desk asks for nothing where a filter is empty, or `any`."""
    filters = meant.told()
    for name, value in filters.items():
        is_text = isinstance(value, str) and name != "status"
        if is_text and (value.strip() in ("", "any") or value != value.strip()):
            raise StackError(
                f"{name} {value!r}: no desk filters by that", "leave it out, or mend it"
            )
    return filters


def _redrive(told: dict[str, Any]) -> Redrive:
    return Redrive(**told, after="")
