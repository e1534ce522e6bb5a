"""The stack's own account of itself, `<state>/stack.json`, and whether it still holds."""

import json
from pathlib import Path
from typing import Any

from local_stack.machine.locks import running_launcher
from local_stack.run.health import ask_gateways
from local_stack.run.operator_token import operator_token

NO_ADDRESS: dict[str, Any] = {
    **{"gateway_url": None, "gateway_urls": {}},
    **{"desk_url": None, "kafka_bootstrap": None, "postgres_url": None},
}


def write_status(state_dir: Path, status: dict[str, Any]) -> None:
    """A reader sees the old file or the new one, never half of either."""
    target = state_dir / "stack.json"
    half = target.with_suffix(".partial")
    half.touch(mode=0o600)  # the PostgreSQL URL holds a password
    half.write_text(json.dumps(status, indent=2) + "\n")
    half.replace(target)


def read_status(state_dir: Path) -> dict[str, Any]:
    """What the launcher wrote last, corrected by what is true now."""
    empty: dict[str, Any] = {"ready": False, **NO_ADDRESS, "jobs": {}, "services": {}}
    status = {**empty, "state_dir": str(state_dir), **_read(state_dir)}
    status |= {"job_outputs": {}, "closed_gateways": []}
    launcher = running_launcher(state_dir)
    status["running"] = launcher is not None
    status["launcher_pid"] = launcher
    if launcher is None:
        services = status["services"].values()
        was_running = any(service["state"] == "running" for service in services)
        stopped = {name: {"state": "stopped", "pid": None} for name in status["services"]}
        status |= {**NO_ADDRESS, "ready": False, "was_running": was_running}
        return {**status, "services": stopped, "jobs": {}}
    return _with_health(status)


def service_state(state_dir: Path, name: str) -> str | None:
    service = _read(state_dir).get("services", {}).get(name)
    return service["state"] if service else None


def last_pids(state_dir: Path) -> list[int]:
    services = _read(state_dir).get("services", {})
    return [service["pid"] for service in services.values() if service["pid"]]


def _with_health(status: dict[str, Any]) -> dict[str, Any]:
    """Ready is asked anew: a job may have died since the launcher looked."""
    services = status["services"]
    ready = bool(services) and all(s["state"] == "running" for s in services.values())
    if "gateway" in services:
        token = operator_token(Path(status["state_dir"]))
        health = ask_gateways(status["gateway_urls"], token)
        status["closed_gateways"] = list(health.closed)
        status["jobs"], status["job_outputs"] = health.jobs, health.outputs
        ready = ready and health.accepts and (health.all_jobs_pass or "spark" not in services)
    return {**status, "ready": bool(status["ready"] and ready)}


def _read(state_dir: Path) -> dict[str, Any]:
    try:
        content = json.loads((state_dir / "stack.json").read_text())
    except (OSError, ValueError):
        return {}
    return content if _is_whole(content) else {}


def _is_whole(content: Any) -> bool:
    """What something else wrote or cut short is no account, and no reason to fail."""
    if not isinstance(content, dict):
        return False
    tables = [content.get(name, {}) for name in ("services", "jobs", "ports", "gateway_urls")]
    if not all(isinstance(table, dict) for table in tables):
        return False
    return all(isinstance(s, dict) and s.keys() >= {"state", "pid"} for s in tables[0].values())
