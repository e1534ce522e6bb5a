"""Requests to OpenSearch or Elasticsearch."""

import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from shared.errors import StoreAwayError
from shared.search.access import SearchAccess

if TYPE_CHECKING:
    import httpx

_ANSWER_S = 30.0
_NDJSON = {"content-type": "application/x-ndjson"}
_OLDER, _NOT_FOUND = 409, 404
# it has too much to do, or does not let this user write
_LATER = (401, 403, 429)


class Answers(NamedTuple):
    refused: dict[int, str]  # by its number, why
    is_gone: bool  # an alias leads nowhere


class SearchServer:
    """StoreAwayError where it does not answer, or cannot do it now."""

    def __init__(self, access: SearchAccess) -> None:
        self._access = access
        self._http: httpx.Client | None = None

    def bulk(self, actions: Sequence[bytes]) -> Answers:
        """Each with its lines. What is older than what is there is passed over."""
        items = self.ask("POST", "/_bulk", b"".join(actions), _NDJSON)["items"]
        refused, is_gone = dict[int, str](), False
        for number, item in enumerate(items):
            ((_, told),) = item.items()
            status, error = int(told["status"]), told.get("error")
            if error is None or status == _OLDER:
                continue
            why = _said(error)
            if status == _NOT_FOUND:
                is_gone = True
            elif status in _LATER or status >= 500:
                raise StoreAwayError(why)
            else:
                refused[number] = why
        return Answers(refused, is_gone)

    def trouble(self) -> str | None:
        """Why it could not do anything now; None: it could."""
        try:
            self.ask("GET", "/")
        except StoreAwayError as away:
            return str(away)
        return None

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        *,
        may_be_missing: bool = False,
    ) -> Any:
        """None where it is missing, and may be."""
        import httpx

        content = orjson.dumps(body) if isinstance(body, dict) else body
        headers = headers or ({"content-type": "application/json"} if body is not None else {})
        try:
            answer = self._client().request(method, path, content=content, headers=headers)
        except (httpx.HTTPError, OSError) as error:
            said = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise StoreAwayError(f"{self._access.url}: {said}") from None
        if may_be_missing and answer.status_code == _NOT_FOUND:
            return None
        if not answer.is_success:
            raise StoreAwayError(f"{self._access.url}{path}: {answer.status_code}: {_why(answer)}")
        return orjson.loads(answer.content) if answer.content else {}

    def _client(self) -> "httpx.Client":
        """Whoever has no index does not load the library."""
        if self._http is None:
            import httpx

            access = self._access
            file = str(access.ca_file) if access.ca_file else None
            self._http = httpx.Client(
                base_url=access.url,
                auth=(access.user, access.password) if access.user else None,
                verify=ssl.create_default_context(cafile=file)
                if access.url.startswith("https")
                else True,
                timeout=_ANSWER_S,
                headers={"user-agent": "headrace"},
                trust_env=False,
            )
        return self._http


def _why(answer: "httpx.Response") -> str:
    try:
        return _said(orjson.loads(answer.content)["error"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200]


def _said(error: Any) -> str:
    """The innermost reason: those around it only say that there is one."""
    if not isinstance(error, dict):
        return str(error)[:200]
    reason = f"{error.get('type', '')}: {error.get('reason', '')}"
    caused = error.get("caused_by")
    return f"{reason[:200]}: {_said(caused)}" if isinstance(caused, dict) else reason[:200]
