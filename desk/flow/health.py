"""What the gateway's /health says is wrong, as the operator may see it who asks."""

import ssl
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx

from shared.settings import GatewaySettings, is_loopback

_WITHIN_S = 2.0
# how long an answer took, or how far a job was behind when it last spoke
_VALUE_SAYS_LITTLE = "job:", "kafka:connection", "postgres:connection", "ledger:"


class Trouble(NamedTuple):
    check: str
    status: str  # warn or fail
    says: str
    follows: str = ""  # from which check that is not well; none: it is a cause
    since: str = ""


class Health(NamedTuple):
    status: str | None  # None: nobody knows, and `unknown` says why
    troubles: tuple[Trouble, ...] = ()
    checks: int = 0
    unknown: str = ""
    refused: str = ""  # of payloads lately, for the callers' own faults, and why


class GatewayHealth:
    def __init__(self, settings: GatewaySettings) -> None:
        self._url, self._token = settings.health_url, settings.health_token
        its = None if settings.desk_health_url else settings.tls_cert_file
        self._tls = _tls(its)
        parts = urlsplit(self._url)
        self._is_private = parts.scheme == "https" or is_loopback(parts.hostname or "")

    def ask(self, token: str) -> Health:
        """`token`: of the operator who looks, which nobody reads on its way; may be empty."""
        token = self._token or (token if self._is_private else "")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        try:
            # no proxy: it is one of our own
            answer = httpx.get(
                self._url, headers=headers, timeout=_WITHIN_S, verify=self._tls, trust_env=False
            )
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            why = str(error) or type(error).__name__
            return Health(None, unknown=f"the gateway, {self._url}, does not answer: {why}")
        try:
            return read(answer.json())
        except ValueError:
            return Health(None, unknown=f"{self._url} answers {answer.status_code}, and no health")


def _tls(certificate: Path | None) -> ssl.SSLContext:
    """`certificate`: the gateway's own, where it is on this machine: no other one counts then, and
    it need not have this machine's name."""
    context = ssl.create_default_context(cafile=certificate)
    if certificate is not None:
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def read(told: Any) -> Health:
    """ValueError where it is none: a refusal, or another server's answer."""
    try:
        known = {name: check for name, (check, *_) in told["checks"].items()}
        wrong = (
            Trouble(
                name,
                str(check["status"]),
                _said(check, with_value=not name.startswith(_VALUE_SAYS_LITTLE)),
                str(check.get("followsFrom", "")),
                str(check.get("since", "")),
            )
            for name, check in known.items()
            if check["status"] != "pass"
        )
        worst_first = sorted(wrong, key=lambda one: one.status != "fail")
        refused = known.get("gateway:refused", {})
        said = _said(refused) if refused.get("output") and refused["status"] == "pass" else ""
        return Health(str(told["status"]), tuple(worst_first), len(known), refused=said)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError("no health") from error


def _said(check: dict[str, Any], *, with_value: bool = True) -> str:
    value, unit = check.get("observedValue"), check.get("observedUnit", "")
    seen = f"{value:,} {unit}" if with_value and isinstance(value, int | float) else ""
    return ": ".join(filter(None, (seen, str(check.get("output") or ""))))
