"""The fleet's own credential, where the gateway wants to know who is asking."""

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from gateway.auth import credential_topic
from gateway.auth.caller import Caller
from gateway.auth.credentials import Credential
from gateway.auth.token import make_token
from local_stack.machine.settings_check import kafka_at
from local_stack.run.health import asks_who, knows
from local_stack.terminal.errors import LOOK, StackError
from shared.kafka_access import KafkaAccess, KafkaAwayError

_KNOWN_WITHIN_S = 20.0
_HOLDS_MS = 86_400_000


@contextmanager
def own_credential(gateway_urls: Collection[str], bootstrap: str) -> Iterator[str | None]:
    """As long as the fleet sends. None where nobody asks."""
    if not any(asks_who(url) for url in gateway_urls):
        yield None
        return
    kafka = kafka_at(bootstrap)
    token, made_ms = make_token(), time.time_ns() // 1_000_000
    credential = Credential(Caller("gateway"), "token", token.proof, made_ms + _HOLDS_MS, made_ms)
    _write(kafka, token.key_id, credential)
    try:
        for url in gateway_urls:
            _wait(url, token.text)
        yield token.text
    finally:
        _write(kafka, token.key_id, None)


def _write(kafka: KafkaAccess, key_id: str, credential: Credential | None) -> None:
    try:
        credential_topic.write(kafka, key_id, credential)
    except KafkaAwayError as error:
        raise StackError(str(error), LOOK) from error


def _wait(gateway_url: str, token: str) -> None:
    deadline_s = time.monotonic() + _KNOWN_WITHIN_S
    while not knows(gateway_url, token):
        if time.monotonic() > deadline_s:
            raise StackError(
                "the gateway does not know the demo's credential",
                "it takes tokens only with HEADRACE_AUTH=token: start the stack with it",
            )
        time.sleep(0.1)
