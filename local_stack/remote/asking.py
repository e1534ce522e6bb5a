"""Requests to a desk elsewhere. What it refuses is a sentence."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import orjson

from local_stack.terminal.errors import StackError
from shared.settings import is_loopback

URL, TOKEN, TOKEN_FILE = (
    "HEADRACE_REMOTE_URL",
    "HEADRACE_REMOTE_TOKEN",
    "HEADRACE_REMOTE_TOKEN_FILE",
)
_ANSWERS_WITHIN_S = 120.0  # a replay takes long
_GIVE_TOKEN = f"give the token of an operator in {TOKEN}, or its file in {TOKEN_FILE}"
_OF_ONE = (400, 404, 409, 413, 422)
FIXES = {
    "no_job": "see: ./headrace jobs list",
    "no_hook": "see: ./headrace hooks list",
    "no_credential": "see: ./headrace credentials list",
    "no_letter": "list those that are there: ./headrace letters list",
    "no_redrive": "see: ./headrace letters redrives",
    "nobody_waits": "list those that wait: ./headrace waiting list",
    "no_payload_there": "copy topic, partition and offset as they came",
}


class RefusedError(StackError):
    """This one was refused: others may be done all the same."""


class RemoteDesk:
    def __init__(self, url: str, token: str = "") -> None:
        self._url = url.rstrip("/")
        self._headers = {b"authorization": b"Bearer " + token.encode()} if token else {}

    def get(self, *path: str, **query: Any) -> Any:
        given = {name: value for name, value in query.items() if value is not None}
        return self._ask("GET", path, params=given)

    def post(self, *path: str, document: Any = None) -> Any:
        return self._ask("POST", path, json=document)

    def put(self, *path: str, document: Any) -> Any:
        return self._ask("PUT", path, json=document)

    def delete(self, *path: str) -> None:
        self._ask("DELETE", path)

    def bytes_at(self, *path: str) -> bytes:
        return self._send("GET", path).content

    def try_payload(
        self, endpoint: str, entity: str, headers: Mapping[bytes, bytes], body: bytes
    ) -> Any:
        return self._ask("POST", ("try", endpoint, entity), content=body, headers=headers)

    def _ask(self, method: str, path: tuple[str, ...], **what: Any) -> Any:
        answer = self._send(method, path, **what)
        if answer.status_code == 204:
            return None
        try:
            return orjson.loads(answer.content)
        except ValueError:
            raise self._no_desk(answer) from None

    def _send(
        self,
        method: str,
        path: tuple[str, ...],
        headers: Mapping[bytes, bytes] | None = None,
        **what: Any,
    ) -> httpx.Response:
        if lost := [part for part in path if part in ("", ".", "..")]:
            raise StackError(f"{lost[0]!r} is no name and no id", "write it as a list shows it")
        own = {**(headers or {}), **self._headers}
        address = "/".join([self._url, "api", *(quote(part, safe="") for part in path)])
        try:
            answer = httpx.request(
                method,
                address,
                headers=own,
                timeout=_ANSWERS_WITHIN_S,
                # a proxy would read what goes to this machine as plain text
                trust_env=not self._url.startswith("http:"),
                **what,
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise StackError(
                f"{self._url} does not answer: {why}",
                "--url is the desk's address, whose port is 8081 by default",
            ) from error
        if not answer.is_success:
            raise self._refused(answer)
        return answer

    def _refused(self, answer: httpx.Response) -> StackError:
        try:
            problem = orjson.loads(answer.content)
            said, code = str(problem["detail"]), str(problem["code"])
        except (ValueError, KeyError, TypeError):
            return self._no_desk(answer)
        if answer.status_code == 401:
            return StackError(said, _GIVE_TOKEN)
        if answer.status_code in _OF_ONE:
            return RefusedError(said, FIXES.get(code, "nothing was changed"))
        otherwise = "nothing was changed" if answer.status_code < 500 else "ask again"
        return StackError(said, FIXES.get(code, otherwise))

    def _no_desk(self, answer: httpx.Response) -> StackError:
        said = f"{self._url} answers {answer.status_code}, and not as a desk does"
        return StackError(said, "--url is the desk's address, not the gateway's")


def remote_desk(environment: Mapping[str, str] = os.environ) -> RemoteDesk | None:
    """None: what runs on this machine is meant."""
    url = environment.get(URL)
    if not url:
        return None
    try:
        its = urlsplit(url)
        is_one = its.scheme in ("http", "https") and its.hostname and "@" not in its.netloc
    except ValueError:
        is_one = False
    if not is_one or not its.hostname:
        raise StackError("--url is no address of a desk", "write https://desk.example.org")
    token = _token(environment)
    if token and its.scheme == "http" and not is_loopback(its.hostname):
        raise StackError(
            f"a token is not sent to {its.hostname} as plain text",
            "give the desk TLS (docs/security.md), or ask it through a tunnel on 127.0.0.1",
        )
    return RemoteDesk(url, token)


def _token(environment: Mapping[str, str]) -> str:
    if file := environment.get(TOKEN_FILE):
        try:
            token = Path(file).read_text().strip()
        except (OSError, ValueError) as error:
            raise StackError(f"{file} cannot be read: {error}", f"see {TOKEN_FILE}") from error
    else:
        token = environment.get(TOKEN, "").strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise StackError("what is given as a token is none", _GIVE_TOKEN)
    return token
