"""What `up` prints once everything is ready."""

import shutil
import sys

from local_stack.stack import Stack

WARNING = "for development, not for production: one broker, no TLS, no login"


def ready_block(stack: Stack, seconds: float) -> str:
    rows = {
        "gateway": stack.gateway_url,
        "API pages": f"{stack.gateway_url}/docs",
        "health": f"{stack.gateway_url}/health",
        "Kafka bootstrap": stack.kafka_bootstrap,
        "PostgreSQL": stack.postgres_url,
        "state folder": str(stack.state_dir),
        "logs": str(stack.state_dir / "logs"),
        "jobs": ", ".join(sorted(stack.jobs)) or "none",
    }
    lines = [f"  {name:<16} {value}" for name, value in rows.items()]
    edge = "─" * (len(WARNING) + 2)
    box = [f"  ┌{edge}┐", f"  │ {WARNING} │", f"  └{edge}┘"]
    head = f"Headrace is ready in {seconds:.1f} s. Ctrl-C stops it."
    return "\n".join(["", head, "", *lines, "", *box, "", "Try it:", "", *_try_it(stack), ""])


def _try_it(stack: Stack) -> list[str]:
    post = f"{stack.gateway_url}/v1/telemetry/device-0001"
    state = f"{stack.gateway_url}/state/device-0001"
    if shutil.which("curl"):
        json_type = "-H 'content-type: application/json'"
        return [
            f"  curl -i -X POST {post} {json_type} -d '{{\"value\": 21.5}}'",
            f"  curl {state}",
        ]
    start = f'  {sys.executable} -c "import httpx; print(httpx'
    return [
        f"{start}.post('{post}', json={{'value': 21.5}}).text)\"",
        f"{start}.get('{state}').text)\"",
    ]
