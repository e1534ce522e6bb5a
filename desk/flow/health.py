"""What the gateway's /health says is wrong, as the operator may see it who asks."""

from typing import Any, NamedTuple

import httpx

from shared.settings import GatewaySettings

_WITHIN_S = 2.0


class Trouble(NamedTuple):
    check: str
    status: str  # warn or fail
    says: str


class Health(NamedTuple):
    status: str | None  # None: nobody knows, and `unknown` says why
    troubles: tuple[Trouble, ...] = ()
    checks: int = 0
    unknown: str = ""


class GatewayHealth:
    def __init__(self, settings: GatewaySettings) -> None:
        self._url, self._token = settings.health_url, settings.health_token

    def ask(self, token: str) -> Health:
        """`token`: of the operator who looks; may be empty."""
        token = self._token or token
        headers = {"authorization": f"Bearer {token}"} if token else {}
        try:
            # no proxy: it is one of our own
            answer = httpx.get(self._url, headers=headers, timeout=_WITHIN_S, trust_env=False)
            told: Any = answer.json()
            return read(told)
        except httpx.HTTPError as error:
            return Health(None, unknown=f"{self._url} does not answer: {error or type(error)}")
        except ValueError:
            return Health(None, unknown=f"{self._url} answers {answer.status_code}, and no health")


def read(told: Any) -> Health:
    """ValueError where it is none: a refusal, or another server's answer."""
    try:
        known = {name: check for name, (check, *_) in told["checks"].items()}
        wrong = (
            Trouble(name, str(check["status"]), _said(check))
            for name, check in known.items()
            if check["status"] != "pass"
        )
        worst_first = sorted(wrong, key=lambda one: one.status != "fail")
        return Health(str(told["status"]), tuple(worst_first), len(known))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError("no health") from error


def _said(check: dict[str, Any]) -> str:
    value, unit = check.get("observedValue"), check.get("observedUnit", "")
    seen = f"{value:,} {unit}" if isinstance(value, int | float) else ""
    return ": ".join(filter(None, (seen, str(check.get("output") or ""))))
