"""The programs of Headrace that a stack runs on its servers: their commands, and what each gets as
its environment."""

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

from clients.postgres.grants import DESK, GATEWAY, JOBS, OWNER
from local_stack.machine.log_files import log_path
from local_stack.machine.ports import accepts
from local_stack.machine.processes import Service, python, run_to_the_end
from local_stack.servers.addresses import OWN_SERVER, Addresses
from local_stack.servers.gateways import (
    BALANCER,
    FIRST,
    is_gateway,
    names_of,
    node_folder,
    peers_environment,
)

_ROLES = {FIRST: GATEWAY, "spark": JOBS, "relay": JOBS, "desk": DESK, "migrate": OWNER}
_COMMANDS = {
    FIRST: python("-m", "gateway"),
    "spark": python("-m", "stream_jobs", "all"),
    "relay": python("-m", "stream_jobs", "relay"),
    "desk": python("-m", "desk"),
}
_LISTENING = {FIRST, "desk"}
_ASK_GATEWAYS = {FIRST, "desk"}  # for states, where these are divided


class Applications:
    def __init__(
        self, addresses: Addresses, state_dir: Path, environment: Mapping[str, str]
    ) -> None:
        self._addresses, self._state_dir = addresses, state_dir
        self._environment = environment

    def init_step(self, name: str) -> None:
        command = python("-m", "stream_jobs", name)
        log = log_path(self._state_dir, f"init-{name}")
        run_to_the_end(f"the step `{name}`", command, self._as_part(name), log)

    def services(self, wanted: Collection[str], gateways: int) -> Iterator[Service]:
        for name in _COMMANDS:
            if name not in wanted:
                continue
            if name == FIRST:
                yield from map(self._service, names_of(gateways))
                if gateways > 1:
                    yield self._balancer(names_of(gateways))
            else:
                yield self._service(name)
        yield from map(self._job, sorted({*wanted} - {*_COMMANDS, *OWN_SERVER}))

    def _job(self, name: str) -> Service:
        """In a process of its own, where `spark` would run all of them in one."""
        return Service(name, python("-m", "stream_jobs", name), self._as_part("spark"), stage=1)

    def _service(self, name: str) -> Service:
        kind = FIRST if is_gateway(name) else name
        port = self._addresses.ports.get(name)
        is_up = partial(accepts, port) if port and kind in _LISTENING else lambda: True
        return Service(name, _COMMANDS[kind], self._as_part(name), stage=1, is_up=is_up)

    def _balancer(self, gateways: Collection[str]) -> Service:
        ports = self._addresses.ports
        told = [self._environment["HEADRACE_GATEWAY_HOST"], ports[BALANCER]]
        told += [ports[name] for name in gateways]
        return Service(
            BALANCER,
            python("-m", "local_stack.servers.balancer", *map(str, told)),
            self._environment,
            stage=0,  # it outlives the gateways, so that they can end in order
            is_up=partial(accepts, ports[BALANCER]),
        )

    def _as_part(self, name: str) -> Mapping[str, str]:
        """With the database's address for that part, which may do there what it needs; of a gateway
        also its own port, and the folder of its node."""
        environment = {**self._environment}
        kind = name
        if is_gateway(name):
            kind = FIRST
            environment["HEADRACE_GATEWAY_PORT"] = str(self._addresses.ports[name])
            if BALANCER in self._addresses.ports:  # which is where devices come
                environment["HEADRACE_GATEWAY_HOST"] = "127.0.0.1"
            environment["HEADRACE_STATE_DIR"] = str(node_folder(self._state_dir, name))
            if BALANCER in self._addresses.ports or "HEADRACE_PEER_URL" not in environment:
                environment["HEADRACE_PEER_URL"] = self._addresses.gateway_urls[name]
        if kind in _ASK_GATEWAYS and environment.get("HEADRACE_STATE_COPIES", "0") != "0":
            environment |= peers_environment(self._state_dir, environment)
        url = self._addresses.postgres_url(_ROLES[kind]) if kind in _ROLES else None
        return {**environment, "HEADRACE_POSTGRES_URL": url} if url else environment
