from pathlib import Path

from gateway.kafka_writer.outcome import Record
from gateway.spool.frame import Frame
from gateway.spool.spool import Spool
from local_stack.servers.addresses import Addresses
from local_stack.servers.gateways import (
    is_gateway,
    left_behind,
    names_of,
    node_folder,
    node_folders,
    peers_environment,
)
from shared.settings import GatewaySettings

TOPIC = "ingest.telemetry.v1"


def test_each_gateway_has_a_folder_of_its_own_and_the_first_that_of_an_only_one(
    tmp_path: Path,
) -> None:
    folders = {node_folder(tmp_path, name) for name in names_of(3)}
    assert len(folders) == 3
    assert [node_folder(tmp_path, name) for name in names_of(1)] == [tmp_path]
    for other in ("gateway-2", "gateway-3", "gateway-x", "kafka"):
        (tmp_path / other).mkdir()
    assert list(node_folders(tmp_path)) == ["gateway", "gateway-2", "gateway-3"]
    assert set(node_folders(tmp_path).values()) == folders
    assert not any(map(is_gateway, ("balancer", "gateway-", "gateway-0", "my-gateway-2")))


def test_the_balancer_has_the_port_that_is_told(tmp_path: Path) -> None:
    addresses = Addresses(tmp_path, {"HEADRACE_GATEWAY_PORT": "18093"}, ["gateway"])
    addresses.choose_ports(lambda _: None, random_ports=True)
    usual, url = addresses.ports["gateway"], addresses.gateway_url
    assert addresses.gateway_urls == {"gateway": url}
    addresses.put_balancer(names_of(2))
    assert addresses.gateway_url == url
    assert addresses.ports["balancer"] == usual
    assert addresses.gateway_urls.keys() == {"gateway", "gateway-2"}
    assert url not in addresses.gateway_urls.values()
    assert len(set(addresses.ports.values())) == len(addresses.ports)


def test_payloads_in_the_spool_of_a_gateway_that_is_not_started_are_told(tmp_path: Path) -> None:
    for number, name in enumerate(names_of(3), 1):
        spool = Spool(node_folder(tmp_path, name) / "spool", 1 << 20, [TOPIC])
        frames = [Frame(TOPIC, Record(b"device-1", b"{}", []), 1_000) for _ in range(number)]
        spool.of(TOPIC).append(frames)
        spool.close()
    assert list(left_behind(tmp_path, 3)) == []
    assert list(left_behind(tmp_path, 2)) == [("gateway-3", 3)]
    assert list(left_behind(tmp_path, 1)) == [("gateway-2", 2), ("gateway-3", 3)]


def test_gateways_and_programs_beside_them_know_each_other_by_one_token(tmp_path: Path) -> None:
    (name, file), *others = peers_environment(tmp_path, {}).items()
    assert (name, others) == ("HEADRACE_PEER_TOKEN_FILE", [])
    assert peers_environment(tmp_path, {}) == {name: file}
    assert Path(file).stat().st_mode & 0o077 == 0
    assert GatewaySettings(state_dir=tmp_path).peer_secret == Path(file).read_text().strip()
    for given in ("HEADRACE_PEER_TOKEN", "HEADRACE_PEER_TOKEN_FILE"):
        assert peers_environment(tmp_path, {given: "x"}) == {}
