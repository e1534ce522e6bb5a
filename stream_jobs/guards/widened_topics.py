"""Topics that were given more partitions on purpose, by a setting or by `./headrace topics widen`.

What the verb says stands in a file of the state folder, before the topic has the partitions: so the
jobs of this machine go on, and know it after a restart.
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
        return count in (self._by_setting.get(topic), self._said().get(topic))

    def accept(self, topic: str, count: int) -> None:
        replace(self._file, orjson.dumps({**self._said(), topic: count}))

    def _said(self) -> dict[str, int]:
        try:
            return {
                topic: int(count) for topic, count in orjson.loads(self._file.read_bytes()).items()
            }
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
