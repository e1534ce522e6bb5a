"""Seals the secrets that signatures are checked with: their topic alone gives nobody one."""

import os
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from shared.settings import GatewaySettings, WrongSetting

_NONCE_BYTES = 12
_KEY_BYTES = 32


class SecretBox:
    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    @classmethod
    def of(cls, settings: GatewaySettings) -> Self:
        name, text = "HEADRACE_CREDENTIALS_KEY", ""
        if settings.credentials_key is not None:
            text = settings.credentials_key.get_secret_value()
        elif settings.credentials_key_file is not None:
            name = f"{name}_FILE"
            text = _read(name, settings.credentials_key_file)
        try:
            key = bytes.fromhex(text.strip())
        except ValueError:
            key = b""
        if len(key) != _KEY_BYTES:
            # never the key itself
            raise WrongSetting(
                f"{name}: it is not 64 hex digits; make one with: openssl rand -hex 32"
            )
        return cls(key)

    def seal(self, key_id: bytes, secret: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret, key_id)

    def open(self, key_id: bytes, sealed: bytes) -> bytes | None:
        """None where it was sealed for another key id, with another key, or not at all."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], key_id)
        except (InvalidTag, ValueError):
            return None


def _read(name: str, path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongSetting(f"{name}: {path} cannot be read: {type(error).__name__}") from error
