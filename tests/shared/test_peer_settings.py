"""Settings of gateways among which states are divided."""

from pathlib import Path

import pytest

from shared.settings import WRONG_SETTINGS, GatewaySettings, explain
from tests.certificates import Authority

_ALL = {"STATE_COPIES": "2", "PEER_URL": "http://10.0.0.5:8000", "PEER_TOKEN": "secret"}


def _given(monkeypatch: pytest.MonkeyPatch, folder: Path, **its: str) -> GatewaySettings:
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(folder))
    for name, value in (_ALL | its).items():
        if value:
            monkeypatch.setenv(f"HEADRACE_{name}", value)
        else:
            monkeypatch.delenv(f"HEADRACE_{name}", raising=False)
    return GatewaySettings()


@pytest.mark.parametrize(
    ("its", "says"),
    [
        ({"PEER_URL": ""}, "set HEADRACE_PEER_URL, too"),
        ({"PEER_TOKEN": ""}, "set HEADRACE_PEER_TOKEN, too"),
        ({"PEER_TOKEN": "sécret"}, "HEADRACE_PEER_TOKEN has more than ASCII"),
        ({"PEER_TOKEN": "two words"}, "HEADRACE_PEER_TOKEN has more than ASCII"),
        ({"PEER_TOKEN_FILE": "/nowhere/token"}, "HEADRACE_PEER_TOKEN_FILE='/nowhere/token' cannot"),
        ({"PEER_CA_FILE": "/nowhere/ca"}, "HEADRACE_PEER_CA_FILE='/nowhere/ca' cannot be read"),
        (
            {"PEER_URL": "http://[::1"},
            "HEADRACE_PEER_URL='http://[::1': write http://",
        ),
        (
            {"PEER_URL": "http://a:99999"},
            "HEADRACE_PEER_URL='http://a:99999': write http://",
        ),
        (
            {"PEER_URL": "http://:8000"},
            "HEADRACE_PEER_URL='http://:8000': write http://",
        ),
        (
            {"PEER_URL": "http://a/path"},
            "HEADRACE_PEER_URL='http://a/path': write http://",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, its: dict[str, str], says: str
) -> None:
    with pytest.raises(WRONG_SETTINGS) as raised:
        _given(monkeypatch, tmp_path, **its).check_peers(is_gateway=True)
    assert isinstance(raised.value, Exception)
    assert says in explain(raised.value)


def test_the_desk_needs_no_address_and_nobody_needs_any_where_states_are_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _given(monkeypatch, tmp_path).check_peers(is_gateway=True)
    _given(monkeypatch, tmp_path, PEER_URL="").check_peers(is_gateway=False)
    nothing = {"STATE_COPIES": "0", "PEER_URL": "", "PEER_TOKEN": ""}
    _given(monkeypatch, tmp_path, **nothing).check_peers(is_gateway=True)


def test_other_gateways_may_call_it_by_the_name_of_its_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    its = {"PEER_URL": "https://gateway-1.example:8000", "HOSTS": "own.example"}
    assert _given(monkeypatch, tmp_path, **its).host_names == {"own.example", "gateway-1.example"}


def test_on_this_machine_the_own_certificate_is_trusted_whatever_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = Authority(tmp_path).issue("CN=gateway", san="gateway.example")
    tls = {"TLS_CERT_FILE": str(own.cert_file), "TLS_KEY_FILE": str(own.key_file)}
    its = _given(monkeypatch, tmp_path, **tls)
    near, far = its.peer_tls("https://127.0.0.1:8000"), its.peer_tls("https://10.0.0.6:8000")
    assert (near.check_hostname, far.check_hostname) == (False, True)
    assert near.cert_store_stats()["x509"] == 1
    assert far.cert_store_stats()["x509"] != 1
