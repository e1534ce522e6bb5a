"""What does not go together in the settings of Kafka's TLS and login, told at the start."""

import ssl
from collections.abc import Mapping
from typing import Any

from shared.kafka_access import KafkaAccess

_PREFIX = "HEADRACE_KAFKA_"
_FILES = ("CA_FILE", "CERT_FILE", "KEY_FILE")
_PASSWORDS = ("SASL_PASSWORD", "SASL_PASSWORD_FILE")
_PKCS8 = "-----BEGIN PRIVATE KEY-----"


def refuse_what_does_not_go_together(access: KafkaAccess, given: Mapping[str, Any]) -> None:
    """`given`: the settings that are set, by the names of their variables without the prefix."""
    security = f"{_PREFIX}SECURITY={access.security}"
    if not access.has_tls:
        _refuse_any(given, _FILES, f"{security} has no TLS: write ssl or sasl_ssl")
    if not access.has_login:
        login = ("SASL_USERNAME", *_PASSWORDS)
        _refuse_any(given, login, f"{security} has no login: write sasl_ssl")
    elif not access.username:
        raise ValueError(f"{_PREFIX}SASL_USERNAME is missing: {security} needs a user")
    elif not access.password or all(name in given for name in _PASSWORDS):
        names = " or ".join(_PREFIX + name for name in _PASSWORDS)
        raise ValueError(f"{names}: {security} needs one of them, and not empty")
    if ("CERT_FILE" in given) != ("KEY_FILE" in given):
        names = f"{_PREFIX}CERT_FILE and {_PREFIX}KEY_FILE"
        raise ValueError(f"{names}: give both or none, each is of no use without the other")
    if access.has_tls:
        _try_files(access)


def _refuse_any(given: Mapping[str, Any], names: tuple[str, ...], why: str) -> None:
    for name in names:
        if name in given:
            raise ValueError(f"{_PREFIX}{name} is set, but {why}")


def _try_files(access: KafkaAccess) -> None:
    for name, file in zip(_FILES, (access.ca_file, access.cert_file, access.key_file), strict=True):
        try:
            text = file.read_text() if file else ""
        except (OSError, ValueError) as error:
            raise ValueError(f"{_PREFIX}{name}={str(file)!r} cannot be read: {error}") from None
        if file and name == "KEY_FILE" and _PKCS8 not in text:
            raise ValueError(
                f"{_PREFIX}{name}={str(file)!r} is no unencrypted PKCS #8 key, which all clients "
                "read: make one with openssl pkcs8 -topk8 -nocrypt"
            )
    try:
        access.tls()
    except ssl.SSLError as error:
        names = ", ".join(_PREFIX + name for name in _FILES)
        raise ValueError(f"{names}: TLS cannot use them: {error}") from None
