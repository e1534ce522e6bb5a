"""Until when what the gateway's TLS uses is valid."""

from pathlib import Path

import pytest

from gateway.http.certificate_ends import certificate_ends
from shared.settings import GatewaySettings
from tests.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_a_file_ends_with_the_first_of_what_it_has(authority: Authority, tmp_path: Path) -> None:
    server, ended = authority.issue("CN=gateway"), authority.issue("CN=old", ended=True)
    chain, cas = tmp_path / "chain.crt", tmp_path / "cas.crt"
    chain.write_bytes(server.cert_file.read_bytes() + authority.file.read_bytes())
    cas.write_bytes(authority.file.read_bytes() + ended.cert_file.read_bytes())
    ends = certificate_ends(
        GatewaySettings(
            auth="mtls", tls_cert_file=chain, tls_key_file=server.key_file, tls_client_ca_file=cas
        )
    )
    assert ends == {
        "tls_cert_file": server.certificate.not_valid_after_utc.timestamp(),
        "tls_client_ca_file": ended.certificate.not_valid_after_utc.timestamp(),
    }


def test_a_revocation_list_ends_when_the_next_one_is_due(
    authority: Authority, tmp_path: Path
) -> None:
    server = authority.issue("CN=gateway")
    settings = GatewaySettings(
        auth="mtls",
        tls_cert_file=server.cert_file,
        tls_key_file=server.key_file,
        tls_client_ca_file=authority.file,
        tls_crl_file=authority.revoke(),
    )
    now = server.certificate.not_valid_after_utc.timestamp() - 86_400
    assert abs(certificate_ends(settings)["tls_crl_file"] - now - 86_400) < 60
    # what cannot be read counts as ended
    (tmp_path / "odd.crl").write_text("-----BEGIN X509 CRL-----\nno\n-----END X509 CRL-----\n")
    for name in ("odd.crl", "none.crl"):
        broken = settings.model_copy(update={"tls_crl_file": tmp_path / name})
        assert certificate_ends(broken)["tls_crl_file"] == 0


def test_without_tls_nothing_ends() -> None:
    assert certificate_ends(GatewaySettings()) == {}
