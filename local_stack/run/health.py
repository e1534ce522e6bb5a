"""What the gateway says about itself and the jobs."""

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

# The stack's own gateway has a certificate, if any, for the name by which devices reach it.
THIS_MACHINE = ssl.create_default_context()
THIS_MACHINE.check_hostname = False
THIS_MACHINE.verify_mode = ssl.CERT_NONE

# Straight to 127.0.0.1, whatever proxy the environment names.
_opener = build_opener(ProxyHandler({}), HTTPSHandler(context=THIS_MACHINE))


@dataclass(frozen=True)
class GatewayHealth:
    accepts: bool = False
    jobs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    closed: tuple[str, ...] = ()  # the gateways that take no payloads now

    @property
    def all_jobs_pass(self) -> bool:
        """What an operator has paused is as it should be."""
        return bool(self.jobs) and all(
            status == "pass" or self.is_paused(name) for name, status in self.jobs.items()
        )

    def is_paused(self, job: str) -> bool:
        return says_paused(self.outputs.get(job, ""))


def says_paused(output: str) -> bool:
    return output.startswith("paused")


def ask_gateway(url: str, token: str | None = None) -> GatewayHealth:
    """`token`: an operator's, where the gateway wants to know who is asking."""
    code, _ = ask(f"{url}/readyz")
    _, body = ask(f"{url}/health", token)
    return GatewayHealth(accepts=code == 200, jobs=job_statuses(body), outputs=job_outputs(body))


def ask_gateways(urls: Mapping[str, str], token: str | None = None) -> GatewayHealth:
    """All of them: they accept if each does, and of a job what the one says that finds it worst,
    since each has its own copy of what the jobs report."""
    closed, jobs, outputs = [], dict[str, str](), dict[str, str]()
    for gateway, url in urls.items():
        health = ask_gateway(url, token)
        if not health.accepts:
            closed.append(gateway)
        for name, status in health.jobs.items():
            if jobs.get(name, "pass") == "pass":
                jobs[name] = status
                outputs.pop(name, None)
                if name in health.outputs:
                    outputs[name] = health.outputs[name]
    return GatewayHealth(bool(urls) and not closed, jobs, outputs, tuple(closed))


def asks_who(url: str) -> bool | None:
    """None where nobody answers."""
    code, _ = ask(f"{url}/health")
    return None if code == 0 else code == 401


def knows(url: str, token: str) -> bool:
    """Whether what was just added has arrived there."""
    return ask(f"{url}/state/_", token)[0] not in (0, 401)


def health_check(url: str, name: str, token: str | None = None) -> dict[str, Any] | None:
    """One check of the gateway's health; None where it has none of that name."""
    _, body = ask(f"{url}/health", token)
    checks = body.get("checks", {}) if isinstance(body, dict) else {}
    return next(iter(checks.get(name, ())), None)


def job_statuses(health: Any) -> dict[str, str]:
    """`{"checks": {"job:fold": [{"status": "pass"}]}}` -> `{"fold": "pass"}`."""
    return {name: str(check.get("status", "fail")) for name, check in _job_checks(health).items()}


def job_outputs(health: Any) -> dict[str, str]:
    """Why a job is not well, in its own words."""
    checks = _job_checks(health).items()
    return {name: str(check["output"]) for name, check in checks if check.get("output")}


def _job_checks(health: Any) -> dict[str, dict[str, Any]]:
    checks = health.get("checks", {}) if isinstance(health, dict) else {}
    return {
        name.removeprefix("job:"): results[0] if results else {}
        for name, results in checks.items()
        if name.startswith("job:")
    }


def ask(url: str, token: str | None = None) -> tuple[int, Any]:
    """Status and JSON; 0 where nobody answers."""
    request = Request(url, headers={"authorization": f"Bearer {token}"} if token else {})
    try:
        with _opener.open(request, timeout=3) as answer:
            return answer.status, json.load(answer)
    except HTTPError as refusal:
        with refusal:
            return refusal.code, json_or_none(refusal.read())
    except (OSError, HTTPException, ValueError):
        return 0, None


@contextmanager
def open_stream(url: str, headers: Mapping[str, str], quiet_s: float) -> Iterator[Iterator[str]]:
    """Lines as they come, as long as something comes within `quiet_s`. HTTPError where the gateway
    refuses, another OSError where it is away."""
    with _opener.open(Request(url, headers={**headers}), timeout=quiet_s) as answer:
        yield (line.decode().rstrip("\r\n") for line in answer)


def json_or_none(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
