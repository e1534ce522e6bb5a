"""Where the parts listen: free ports for the embedded ones, the user's word for the others."""

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from local_stack.machine.ports import free_port, is_free
from local_stack.servers.gateways import BALANCER, FIRST, is_gateway
from local_stack.servers.postgres_address import postgres_url
from local_stack.terminal.errors import StackError

CUSTOMARY_PORTS = {"gateway": 8080, "desk": 8081, "kafka": 9092, "postgres": 5432}
CHOSEN_BY = {"gateway": "HEADRACE_GATEWAY_PORT", "desk": "HEADRACE_DESK_PORT"}
OWN_SERVER = {"kafka": "HEADRACE_KAFKA_BOOTSTRAP", "postgres": "HEADRACE_POSTGRES_URL"}
_OWN_SERVER_WAIT_S = 20.0


def wait_for_own(server: str, variable: str, at: str, answers: Callable[[], bool]) -> None:
    """For a server of the user's own, which must simply be there."""
    give_up_s = time.monotonic() + _OWN_SERVER_WAIT_S
    while not answers():
        if time.monotonic() > give_up_s:
            fix = f"start it, or unset {variable} to use the embedded one"
            raise StackError(f"no {server} answers at {at}", fix)
        time.sleep(0.5)


class Addresses:
    def __init__(
        self, state_dir: Path, settings: Mapping[str, str], services: Collection[str]
    ) -> None:
        self.ports: dict[str, int] = {}
        self._state_dir = state_dir
        self._settings = settings
        self._services = services

    def embedded(self, name: str) -> bool:
        """Started here: an existing server given by setting always wins."""
        return name in self._services and not self._settings.get(OWN_SERVER.get(name, ""))

    def choose_ports(self, report: Callable[[str], None], *, random_ports: bool) -> None:
        for name, customary in CUSTOMARY_PORTS.items():
            variable = CHOSEN_BY.get(name, "")
            wanted = _port(variable, self._settings.get(variable) or str(customary))
            if random_ports or not is_free(wanted):
                self.ports[name] = free_port(self.ports.values())
            else:
                self.ports[name] = wanted
            if not random_ports and self.embedded(name) and self.ports[name] != wanted:
                report(f"  port {wanted} is taken: {name} listens on {self.ports[name]}")
        self.ports["controller"] = free_port(self.ports.values())
        started = [f"{name} {port}" for name, port in self.ports.items() if self.embedded(name)]
        report(f"  ports    {', '.join(started)}")

    def put_balancer(self, gateways: Collection[str]) -> None:
        """At the port that was chosen for the only gateway; each of these gets one of its own."""
        self.ports[BALANCER] = self.ports[FIRST]
        for name in gateways:
            self.ports[name] = free_port(self.ports.values())

    @property
    def gateway_url(self) -> str:
        return self._url(BALANCER if BALANCER in self.ports else FIRST)

    @property
    def gateway_urls(self) -> dict[str, str]:
        """The address of each gateway, past the balancer."""
        return {name: self._url(name) for name in self.ports if is_gateway(name)}

    @property
    def desk_url(self) -> str | None:
        return self._url("desk") if "desk" in self._services else None

    def _url(self, name: str) -> str:
        scheme = "https" if self._settings.get("HEADRACE_TLS_CERT_FILE") else "http"
        return f"{scheme}://127.0.0.1:{self.ports[name]}"

    @property
    def kafka_bootstrap(self) -> str:
        own = self._settings.get(OWN_SERVER["kafka"])
        return own or f"127.0.0.1:{self.ports['kafka']}"

    def environment(self) -> dict[str, str]:
        """Where the parts listen and find Kafka, as their settings."""
        return {
            "HEADRACE_KAFKA_BOOTSTRAP": self.kafka_bootstrap,
            "HEADRACE_GATEWAY_PORT": str(self.ports["gateway"]),
            "HEADRACE_DESK_PORT": str(self.ports["desk"]),
            "HEADRACE_ADMIN_PORT": "0",  # its health is asked for on the main one
        }

    def postgres_url(self, role: str) -> str | None:
        """None as long as no database was ever made here; a server of the user's own is reached as
        the user says, whatever the role."""
        own = self._settings.get(OWN_SERVER["postgres"])
        return own or postgres_url(self._state_dir, self.ports["postgres"], role)


def _port(variable: str, text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        port = 0
    if not 1 <= port <= 65_535:
        raise StackError(f"{variable}={text!r} is no port", "ports are 1 to 65535")
    return port
