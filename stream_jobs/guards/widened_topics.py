"""Topics that were given more partitions on purpose, by a setting or by `./headrace topics widen`.

What the verb says stands in a file of the state folder, before the topic has the partitions: so the
jobs of this machine go on, and know it after a restart. A topic may be widened again and again, and
a job may be several numbers behind: each of them is accepted.
"""

from collections.abc import Mapping
from pathlib import Path

import orjson

from stream_jobs.guards.checkpoint_folder import replace

_FILE = "widened-topics.json"


class WidenedTopics:
    def __init__(self, state_dir: Path, by_setting: Mapping[str, int] | None = None) -> None:
        self._file = state_dir / _FILE
        self._by_setting = by_setting or {}

    def accepts(self, topic: str, count: int) -> bool:
        """So many partitions."""
        return count == self._by_setting.get(topic) or count in self._said().get(topic, ())

    def accept(self, topic: str, *counts: int) -> None:
        said = self._said()
        self._write({**said, topic: sorted({*said.get(topic, ()), *counts})})

    def withdraw(self, topic: str, count: int) -> None:
        """It has not come to it."""
        said = self._said()
        self._write({**said, topic: [one for one in said.get(topic, ()) if one != count]})

    def _write(self, said: Mapping[str, list[int]]) -> None:
        replace(self._file, orjson.dumps(said))

    def _said(self) -> dict[str, list[int]]:
        try:
            told = orjson.loads(self._file.read_bytes())
            return {topic: [*map(int, counts)] for topic, counts in told.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
