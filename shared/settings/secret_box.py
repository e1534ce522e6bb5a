"""Seals the secrets of signatures, made or checked: their topic alone gives nobody one."""

import os
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from shared.machine.private_folder import keep_private
from shared.settings.gateway import GatewaySettings
from shared.settings.wrong_setting import WrongSetting

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
        return cls(_key(name, text))

    def seal(self, key_id: bytes, secret: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret, key_id)

    def open(self, key_id: bytes, sealed: bytes) -> bytes | None:
        """None where it was sealed for another key id, with another key, or not at all."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], key_id)
        except (InvalidTag, ValueError):
            return None


def box_of_hooks(file: Path, *, may_make: bool = False) -> SecretBox:
    """Where no key is there, whoever adds the first hook makes one."""
    if may_make and not file.exists():
        _make(file)
    return SecretBox(_key("HEADRACE_HOOKS_KEY_FILE", _read("HEADRACE_HOOKS_KEY_FILE", file)))


def _read(name: str, path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongSetting(f"{name}: {path} cannot be read: {type(error).__name__}") from error


def _key(name: str, text: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        # never the key itself
        raise WrongSetting(f"{name}: it is not 64 hex digits; make one with: openssl rand -hex 32")
    return key


def _make(file: Path) -> None:
    """Whole or not at all, and one: two processes may begin at once."""
    keep_private(file.parent)
    own = file.with_name(f"{file.name}.{os.getpid()}")
    with os.fdopen(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
        made.write(os.urandom(_KEY_BYTES).hex())
    try:
        os.link(own, file)
    except FileExistsError:
        pass
    finally:
        own.unlink()
