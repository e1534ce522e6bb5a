"""What `up` prints once everything is ready."""

import json
import shutil
import sys
from shlex import quote

from clients.postgres.grants import READER
from local_stack.machine.settings_check import chosen_flow
from local_stack.run.operator_token import operator_token
from local_stack.run.stack import Stack
from local_stack.servers.postgres_address import shown
from shared.flow_table import Flow
from shared.model import Example
from shared.settings import GatewaySettings

WARNING = "for development, not for production: one broker, no TLS, no login"


def ready_block(stack: Stack, seconds: float) -> str:
    each = stack.gateway_urls if len(stack.gateway_urls) > 1 else {}
    rows = {
        "gateway": f"{stack.gateway_url}, a balancer" if each else stack.gateway_url,
        **{f"  {name}": url for name, url in each.items()},
        "API pages": f"{stack.gateway_url}/docs",
        "health": f"{stack.gateway_url}/health",
        **({"desk": stack.desk_url} if stack.desk_url else {}),
        "Kafka bootstrap": stack.kafka_bootstrap,
        "PostgreSQL": str(shown(stack.postgres_url_of(READER))),
        "state folder": str(stack.state_dir),
        "logs": str(stack.state_dir / "logs"),
        "jobs": ", ".join(sorted(stack.jobs)) or "none",
    }
    lines = [f"  {name:<16} {value}" for name, value in rows.items()]
    edge = "─" * (len(WARNING) + 2)
    box = [f"  ┌{edge}┐", f"  │ {WARNING} │", f"  └{edge}┘"]
    asks = operator_token(stack.state_dir) is not None
    calls = try_it(stack.gateway_url, chosen_flow(), asks_who=asks)
    ways = GatewaySettings().ways_to_ask
    if ways and "token" not in ways:
        calls = [f"  docs/security.md tells how to say who is asking by {', '.join(sorted(ways))}"]
    head = f"Headrace is ready in {seconds:.1f} s. Ctrl-C stops it."
    return "\n".join(["", head, "", *lines, "", *box, "", "Try it:", "", *calls, ""])


def try_it(gateway_url: str, flow: Flow, *, asks_who: bool = False) -> list[str]:
    """The first payload that the flow gives as an example, and what it comes to."""
    endpoint = next((row for row in flow.endpoints if row.example), flow.endpoints[0])
    entity_id, payload = endpoint.example or Example(f"{endpoint.name}-0001", {})
    post = f"{gateway_url}/v1/{endpoint.name}/{entity_id}"
    state = f"{gateway_url}/state/{entity_id}"
    body = json.dumps(payload)
    # its certificate names the host by which devices reach it, not this machine
    has_tls = gateway_url.startswith("https")
    if shutil.which("curl"):
        header = "-H 'content-type: application/json'"
        who = ' -H "Authorization: Bearer $TOKEN"' if asks_who else ""
        curl = "curl -k" if has_tls else "curl"
        lines = [f"{curl} -i -X POST {post}{who} {header} -d {quote(body)}", f"{curl} {state}{who}"]
    else:
        who = ', headers={"authorization": "Bearer " + os.environ["TOKEN"]}' if asks_who else ""
        who += ", verify=False" if has_tls else ""
        asked = [f'post("{post}", content={json.dumps(body)}{who})', f'get("{state}"{who})']
        code = [f"import httpx, os; print(httpx.{call}.text)" for call in asked]
        lines = [f"{sys.executable} -c {quote(line)}" for line in code]
    lines = lines if flow.with_state else lines[:1]
    if asks_who:
        lines.insert(0, f"./headrace credentials add --device {entity_id}  # export TOKEN=…")
    return [f"  {line}" for line in lines]
