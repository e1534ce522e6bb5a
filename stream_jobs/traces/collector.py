"""Where spans go. What a collector does not take is lost: nothing ever waits for it."""

import logging
from collections.abc import Sequence

import httpx
import orjson

from stream_jobs.traces.span import Span, request_of

_log = logging.getLogger(__name__)
_ANSWER_S = 2.0
_AT_ONCE_MAX = 512


class Collector:
    def __init__(self, address: str) -> None:
        self._url = f"{address.rstrip('/')}/v1/traces"
        self._client = httpx.Client(timeout=_ANSWER_S, trust_env=False)
        self._is_away = False
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells of every request

    def take(self, spans: Sequence[Span]) -> None:
        for start in range(0, len(spans), _AT_ONCE_MAX):
            self._send(spans[start : start + _AT_ONCE_MAX])

    def _send(self, spans: Sequence[Span]) -> None:
        headers = {"content-type": "application/json"}
        try:
            answer = self._client.post(
                self._url, content=orjson.dumps(request_of(spans)), headers=headers
            )
            why = "" if answer.is_success else f"it says {answer.status_code}"
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
        if bool(why) != self._is_away:
            self._is_away = bool(why)
            said = f"does not take spans, they are dropped: {why}" if why else "takes spans again"
            _log.warning("the collector at %s %s", self._url, said)

    def close(self) -> None:
        self._client.close()
