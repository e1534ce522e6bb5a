from collections.abc import Mapping
from typing import Any, NamedTuple

from desk.hooks.replay import Window
from desk.letters.selection import Selection
from local_stack.remote.asking import RemoteDesk
from local_stack.remote.letters import filters_of
from shared.timestamps import to_rfc3339

_LOG_MAX = 10_000


class _Begun(NamedTuple):
    letters: int
    id: int


class RemoteHooks:
    """`by`: the desk knows whose token it is."""

    def __init__(self, desk: RemoteDesk) -> None:
        self._desk = desk

    def all(self) -> list[dict[str, Any]]:
        return list(self._desk.get("hooks")["hooks"])

    def show(self, name: str) -> dict[str, Any]:
        return dict(self._desk.get("hooks", name))

    def add(
        self,
        name: str,
        fields: Mapping[str, Any],
        secret: str | None = None,
        *,
        by: str,  # noqa: ARG002
    ) -> str | None:
        document = {**fields} if secret is None else {**fields, "secret": secret}
        made = self._desk.put("hooks", name, document=document).get("secret")
        return None if made is None else str(made)

    def pause(self, name: str, *, by: str) -> None:  # noqa: ARG002
        self._desk.post("hooks", name, "pause")

    def resume(self, name: str, *, by: str) -> None:  # noqa: ARG002
        self._desk.post("hooks", name, "resume")

    def rotate(self, name: str, secret: str | None = None, *, by: str) -> str:  # noqa: ARG002
        document = None if secret is None else {"secret": secret}
        return str(self._desk.post("hooks", name, "rotate", document=document)["secret"])

    def send_test(self, name: str, *, by: str) -> str:  # noqa: ARG002
        return str(self._desk.post("hooks", name, "test")["event_id"])

    def replay(self, name: str, window: Window, *, by: str) -> int:  # noqa: ARG002
        its = {"since": to_rfc3339(window.since_ms), "until": to_rfc3339(window.until_ms)}
        wanted = {**its, "entity": window.entity}
        return int(self._desk.post("hooks", name, "replay", document=wanted)["events"])

    def replay_failed(self, name: str, meant: Selection, *, by: str) -> _Begun:  # noqa: ARG002
        its = filters_of(meant)
        wanted = {"since": meant.since, "until": meant.until, "entity": its.get("entity_id")}
        begun = self._desk.post("hooks", name, "replay", document={**wanted, "failed": True})
        return _Begun(begun["letters"], begun["redrive"])

    def delete(self, name: str, *, by: str) -> None:  # noqa: ARG002
        self._desk.delete("hooks", name)

    def log(self, name: str, since_ms: int, limit: int) -> list[dict[str, Any]]:
        found = self._desk.get(
            "hooks", name, "log", since=to_rfc3339(since_ms), limit=min(limit, _LOG_MAX)
        )
        return list(found["tries"])
