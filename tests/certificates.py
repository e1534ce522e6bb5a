"""Certificates for a test, made in it."""

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)
_PURPOSES = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]


class Issued(NamedTuple):
    """PEM files, and the certificate itself."""

    cert_file: Path
    key_file: Path
    certificate: x509.Certificate


class Authority:
    def __init__(self, folder: Path, name: str = "test CA") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 3 * _DAY)
            .not_valid_after(now + 3 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(self._key_identifier(), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.file = self._write(f"{name}.crt", self._certificate)

    def issue(
        self, subject: str, *, san: str = "127.0.0.1", ended: bool = False, name: str = ""
    ) -> Issued:
        """`subject` as RFC 4514 writes it; `san` is an address, a DNS name or a URI."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name.from_rfc4514_string(subject))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * _DAY)
            .not_valid_after(now - _DAY if ended else now + _DAY)
            .add_extension(x509.SubjectAlternativeName([_general_name(san)]), critical=False)
            .add_extension(x509.ExtendedKeyUsage(_PURPOSES), critical=False)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        stem = name or subject
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        key_file = self._folder / f"{stem}.key"
        key_file.write_bytes(pem)
        return Issued(self._write(f"{stem}.crt", certificate), key_file, certificate)

    def revoke(self, *revoked: Issued) -> Path:
        """The file of those that are no longer to be believed."""
        now = datetime.datetime.now(datetime.UTC)
        crl = x509.CertificateRevocationListBuilder().issuer_name(self._name)
        crl = crl.last_update(now - _DAY).next_update(now + _DAY)
        for one in revoked:
            serial = one.certificate.serial_number
            entry = x509.RevokedCertificateBuilder().serial_number(serial)
            crl = crl.add_revoked_certificate(entry.revocation_date(now - _DAY).build())
        return self._write("revoked.crl", crl.sign(self._key, hashes.SHA256()))

    def _key_identifier(self) -> x509.SubjectKeyIdentifier:
        return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())

    def _write(self, name: str, made: x509.Certificate | x509.CertificateRevocationList) -> Path:
        file = self._folder / name
        file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        return file


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(san: str) -> x509.GeneralName:
    if "://" in san or san.startswith("urn:"):
        return x509.UniformResourceIdentifier(san)
    try:
        return x509.IPAddress(ipaddress.ip_address(san))
    except ValueError:
        return x509.DNSName(san)
