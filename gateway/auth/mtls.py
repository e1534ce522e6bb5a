"""A device that is known by its certificate: CN is its id, O its tenant.

The certificate comes from the TLS layer of the connection itself; no header ever says who it is.
The handshake has verified it. It is looked at again at each request, since a connection may outlive
what it began with.
"""

import logging
import ssl
from asyncio import BaseTransport
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID
from starlette.types import Scope

from gateway.auth.caller import Caller
from gateway.auth.credentials import refuse_unfit
from gateway.http.message import Certified
from shared.ids import NO_TENANT

log = logging.getLogger(__name__)

_IN_SCOPE = "headrace.certified"
_CRL_BEGINS = b"-----BEGIN X509 CRL-----"


class Revoked:
    """What the revocation list says, which may be replaced at any time."""

    def __init__(self, crl_file: Path | None) -> None:
        self._file = crl_file
        self._read_at: object = None
        self._found: frozenset[tuple[x509.Name, int]] = frozenset()

    def look(self) -> None:
        if self._file is None or (at := self._file.stat().st_mtime_ns) == self._read_at:
            return
        _, *parts = self._file.read_bytes().split(_CRL_BEGINS)
        lists = [x509.load_pem_x509_crl(_CRL_BEGINS + part) for part in parts]
        self._found = frozenset((crl.issuer, one.serial_number) for crl in lists for one in crl)
        self._read_at = at

    def has(self, certified: Certified) -> bool:
        return (certified.issuer, certified.serial) in self._found


def certified_by(transport: BaseTransport) -> Certified | None:
    """Whom a connection's verified certificate names. None without one, or where it names no
    device."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    der = tls.getpeercert(binary_form=True) if tls else None
    if der is None:
        return None
    certificate = x509.load_der_x509_certificate(der)
    try:
        names = _names_in(certificate.subject)
    except ValueError as error:
        log.warning("a certificate names no device: %s", error)
        return None
    ends_ms = certificate.not_valid_after_utc.timestamp() * 1000
    return Certified(*names, certificate.issuer, certificate.serial_number, ends_ms)


def put_into(scope: Scope, certified: Certified | None) -> None:
    scope[_IN_SCOPE] = certified


def certified_in(scope: Scope) -> Certified | None:
    found: Certified | None = scope.get(_IN_SCOPE)
    return found


def _names_in(subject: x509.Name) -> tuple[str, str]:
    """The tenant and the device."""
    ids, tenants = (
        [str(one.value) for one in subject.get_attributes_for_oid(oid)]
        for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    )
    if len(ids) != 1 or len(tenants) > 1:
        raise ValueError("its subject has to have one CN, the device's id, and at most one O")
    tenant, device = tenants[0] if tenants else NO_TENANT, ids[0]
    refuse_unfit(Caller("device", tenant, device))
    return tenant, device
