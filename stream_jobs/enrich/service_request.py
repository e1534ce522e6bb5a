"""One request to a service, and what its answer is worth."""

import asyncio
from http import HTTPStatus
from typing import Any

import orjson

from shared.contract import contract_of
from shared.formats.text import holds_nul
from shared.lookups import HttpLookup

# these are said of the service, and never of a key
_OF_THE_SERVICE = {
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
_OF_THE_CALLER = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED,
    HTTPStatus.REQUEST_TIMEOUT,
}
_HEADERS = {
    "accept": "application/json",
    "accept-encoding": "identity",  # a kilobyte could hold a gigabyte of zeros
    "user-agent": "headrace",
}


class NoAnswerError(Exception):
    """`away`: the service is, as a whole. `is_there`: it only refused this key."""

    def __init__(self, why: str, *, away: bool = False, is_there: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.away = away
        self.is_there = is_there


def client() -> Any:
    """The httpx.AsyncClient of this event loop, for all services. Whoever asks nothing does not
    load the library."""
    import httpx

    limits = httpx.Limits(max_connections=None)  # each look-up has its own
    return httpx.AsyncClient(timeout=None, limits=limits, headers=_HEADERS)


async def request(http: Any, lookup: HttpLookup, key: str) -> bytes | None:
    """JSON that keeps the contract; None: nothing is known of the key. Or NoAnswerError."""
    import httpx

    try:
        # of the whole: a library's own limits are those of each piece that comes
        async with (
            asyncio.timeout(lookup.within_s),
            http.stream("GET", lookup.url_of(key), headers=dict(lookup.headers)) as response,
        ):
            # read also where nothing is in it for us: the connection is used again
            is_answer = response.status_code in (HTTPStatus.OK, HTTPStatus.NOT_FOUND)
            body = await _body(response, lookup.answer_bytes_max) if is_answer else b""
            status = response.status_code
    except TimeoutError as error:
        raise NoAnswerError(f"no answer within {lookup.within_s:g} s") from error
    except (httpx.ConnectError, httpx.ProxyError) as error:
        raise NoAnswerError(f"{type(error).__name__}: {error}", away=True) from error
    except NoAnswerError:
        raise
    except (httpx.LocalProtocolError, UnicodeError) as error:
        # what is wrong in our own request they show, and that may be a secret in its headers
        raise NoAnswerError(type(error).__name__) from None
    except Exception as error:  # whatever a library makes of its answer: no payload's fault
        raise NoAnswerError(f"{type(error).__name__}: {error}") from error
    return _judged(lookup, status, body)


async def _body(response: Any, bytes_max: int) -> bytes:
    body = b""
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > bytes_max:
            raise NoAnswerError(f"its answer has more than {bytes_max} bytes")
    return body


def _judged(lookup: HttpLookup, status: int, body: bytes) -> bytes | None:
    if status == HTTPStatus.NOT_FOUND:
        return None
    if status != HTTPStatus.OK:
        is_of_key = 400 <= status < 500 and status not in _OF_THE_SERVICE | _OF_THE_CALLER
        away = status in _OF_THE_SERVICE
        raise NoAnswerError(f"it answers {status}", away=away, is_there=is_of_key)
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise NoAnswerError(f"its answer is no JSON: {error}") from error
    if lookup.answer is not None and (breach := contract_of(lookup.answer).breach(found)):
        raise NoAnswerError(f"its answer breaks the contract: {breach.code}: {breach.detail}")
    if holds_nul(body):
        raise NoAnswerError(r"its answer has \u0000 in it, which can be stored nowhere as text")
    return body
