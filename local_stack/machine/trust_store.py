"""A trust store for the Java from the wheel, which knows only the certificates it came with.

Behind a proxy that signs anew, only the machine's own bundle knows the certificate.
The old JKS format is a dozen lines to write; keytool would need a JVM start per certificate.
"""

import hashlib
import ssl
import struct
import time
from pathlib import Path

PASSWORD = "changeit"  # the customary one; it protects nothing, these are public certificates
BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def find_bundle() -> Path | None:
    """SSL_CERT_FILE if it is set (Python reads it here), else the distribution's bundle."""
    named = ssl.get_default_verify_paths().cafile
    return next((Path(path) for path in (named, *BUNDLES) if path and Path(path).is_file()), None)


def write_trust_store(bundle: Path, target: Path) -> None:
    certificates = _certificates(bundle.read_text(errors="replace"))
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        body += struct.pack(">I", 2) + _utf(f"ca-{number}")
        body += struct.pack(">Q", int(time.time() * 1000))
        body += _utf("X.509") + struct.pack(">I", len(certificate)) + certificate
    seal = PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body
    target.write_bytes(body + hashlib.sha1(seal).digest())


def java_options(store: Path) -> list[str]:
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=jks",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
    ]


def _certificates(bundle: str) -> list[bytes]:
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    parts = (part.split(end)[0] for part in bundle.split(begin)[1:])
    return [ssl.PEM_cert_to_DER_cert(f"{begin}\n{part.strip()}\n{end}\n") for part in parts]


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
