"""Until when the gateway's certificates and its revocation lists are valid."""

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from cryptography import x509

from gateway.http.tls import named_files
from shared.settings import GatewaySettings

log = logging.getLogger(__name__)

_CRL_BEGINS = b"-----BEGIN X509 CRL-----"
_FOR_EVER = datetime.max.replace(tzinfo=UTC)


def certificate_ends(settings: GatewaySettings) -> Mapping[str, float]:
    """When the first certificate in the file of each setting ends, in seconds of the epoch. 0:
    nobody can tell, since it cannot be read."""
    return {
        name: _first_end(file.read_bytes, _ENDS[name])
        for name, file in named_files(settings, _ENDS).items()
    }


def _first_end(pem: Callable[[], bytes], ends: Callable[[bytes], Iterable[datetime]]) -> float:
    try:
        return min(ends(pem())).timestamp()
    except (OSError, ValueError) as error:
        log.warning("nobody can tell when a certificate ends: %s", error)
        return 0.0


def _of_certificates(pem: bytes) -> Iterable[datetime]:
    return [one.not_valid_after_utc for one in x509.load_pem_x509_certificates(pem)]


def _of_revocation_lists(pem: bytes) -> Iterable[datetime]:
    _, *parts = pem.split(_CRL_BEGINS)
    lists = [x509.load_pem_x509_crl(_CRL_BEGINS + part) for part in parts]
    return [one.next_update_utc or _FOR_EVER for one in lists]


_ENDS: Mapping[str, Callable[[bytes], Iterable[datetime]]] = {
    "tls_cert_file": _of_certificates,
    "tls_client_ca_file": _of_certificates,
    "tls_crl_file": _of_revocation_lists,
}
