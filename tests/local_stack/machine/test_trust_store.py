import hashlib
import ssl
import struct
from pathlib import Path

import pytest

from local_stack.machine.trust_store import PASSWORD, find_bundle, write_trust_store


def test_every_certificate_of_the_bundle_is_in_the_sealed_store(tmp_path: Path) -> None:
    certificates = [b"first certificate", b"second certificate"]
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("# a comment\n".join(map(ssl.DER_cert_to_PEM_cert, certificates)))
    store = tmp_path / "trust.jks"
    write_trust_store(bundle, store)
    body, seal = store.read_bytes()[:-20], store.read_bytes()[-20:]
    assert struct.unpack(">III", body[:12]) == (0xFEEDFEED, 2, 2)
    assert all(certificate in body for certificate in certificates)
    secret = PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite"
    assert seal == hashlib.sha1(secret + body).digest()


def test_the_users_own_bundle_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tmp_path / "own.pem"
    bundle.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert find_bundle() == bundle
