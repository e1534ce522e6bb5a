"""The hooks as a worker process knows them: it follows their topic, and opens their secrets."""

import logging
from base64 import b64decode
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from clients.kafka.follow import LogFollower
from shared.consumer_groups import HOOKS
from shared.errors import UnreadableHookError
from shared.forwarding.hook import Hook, Hooks
from shared.forwarding.signature import key_of
from shared.kafka_access import KafkaAccess
from shared.topic_names import HOOK_TOPIC

if TYPE_CHECKING:
    from shared.settings.secret_box import SecretBox

_log = logging.getLogger(__name__)


class FeedTask(NamedTuple):
    """What a worker process needs to know."""

    kafka: KafkaAccess
    key_file: Path


class HookFeed:
    """Every call raises KafkaException where no broker answers."""

    def __init__(self, task: FeedTask) -> None:
        self._log = LogFollower(task.kafka, HOOKS, [HOOK_TOPIC])
        self._key_file = task.key_file
        self._hooks = Hooks()
        self._keys: dict[tuple[str, int], list[bytes]] = {}

    def look(self) -> Hooks:
        """All that was written until now. UnreadableHookError where one of it cannot be read."""
        self._log.go_on_from({})
        for message in self._log.to_the_end():
            self._hooks.hear(message.key(), message.value())
        for name, why in sorted(self._hooks.wrong.items()):
            raise UnreadableHookError(
                f"the hook {name} cannot be read: {why}; bring forward to the version that wrote "
                "it, or delete the hook"
            )
        return self._hooks

    def keys(self, hook: Hook, now_ms: int) -> list[bytes]:
        """With which it is signed for it. WrongSetting where they cannot be opened."""
        known = self._keys.get((hook.name, hook.revision))
        if known is None:
            # the workers of all jobs know this module, and most stacks have no hook
            from shared.settings.secret_box import box_of_hooks

            box = box_of_hooks(self._key_file)
            known = self._keys[hook.name, hook.revision] = [
                _opened(box, hook.name, one.sealed) for one in hook.secrets
            ]
        until = [one.until_ms for one in hook.secrets]
        return [key for key, end in zip(known, until, strict=True) if end is None or end > now_ms]


def _opened(box: "SecretBox", name: str, sealed: str) -> bytes:
    secret = box.open(name.encode(), b64decode(sealed))
    if secret is None:
        raise ValueError(
            f"the secret of {name} was sealed with another key: give forward the key of "
            "HEADRACE_HOOKS_KEY_FILE that it was added with, or rotate it"
        )
    return key_of(secret.decode())


@cache  # a process keeps one, with its connections
def hook_feed(task: FeedTask) -> HookFeed:
    return HookFeed(task)
