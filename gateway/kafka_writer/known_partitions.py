"""How many partitions the ingest topics had when this node first wrote to them.

An entity's partition comes from their number. Where a topic is given more of them later, the node
goes on with those it knew: so it accepts, and no entity's next payload overtakes its last one. It
is remembered on the disk, for each topic in a file that the node's workers share. Who widens a
topic in order (`./headrace topics widen`) writes the new number there before the topic has it.
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

log = logging.getLogger(__name__)


class KnownPartitions:
    def __init__(self, state_dir: Path, accepted: Mapping[str, int]) -> None:
        """`accepted`: what the operator says that topics have now."""
        self._folder = state_dir / "partitions"
        self._accepted = accepted

    def to_use(self, topic: str, now: int) -> int:
        known = self._known(topic)
        if known is None or known > now or self._accepted.get(topic) == now:
            try:
                self.remember(topic, now)
            except OSError as error:  # it is accepted all the same
                log.error("how many partitions %s has cannot be remembered: %s", topic, error)
            return now
        if known < now:
            log.error("%s", self._told(topic, known, now))
        return known

    def widened(self, now: Mapping[str, int]) -> list[str]:
        """What is the matter with each topic that has more partitions than are used."""
        return [
            self._told(topic, known, count)
            for topic, count in now.items()
            if (known := self._known(topic)) is not None and known < count
        ]

    def _told(self, topic: str, known: int, now: int) -> str:
        if self._accepted.get(topic) == now:
            return f"{topic} has {now} partitions: restart the gateway, it still writes to {known}"
        return (
            f"TOPIC_WIDENED: {topic} had {known} partitions and has {now} now; the gateway goes on "
            f"writing to the {known}, to keep the order of each entity: docs/operations.md says "
            "what to do"
        )

    def of(self, topic: str) -> int:
        """0: the node has not written to it yet."""
        return self._known(topic) or 0

    def _known(self, topic: str) -> int | None:
        try:
            return int((self._folder / topic).read_text())
        except (OSError, ValueError):
            return None

    def remember(self, topic: str, count: int) -> None:
        """OSError where the disk does not take it."""
        if self._known(topic) == count:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self._folder / f".{topic}.{os.getpid()}"
        new.write_text(str(count))
        new.replace(self._folder / topic)
