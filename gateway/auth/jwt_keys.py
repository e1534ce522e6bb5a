"""The keys that JWTs may be signed with: a fixed set, from a file. A token's header names one of
them and nothing else: no address, no key of its own, no path."""

import json
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from gateway.http.file_state import file_state
from shared.settings import WrongSetting

log = logging.getLogger(__name__)

_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class Key(NamedTuple):
    key: Any
    algorithm: str  # the one that it is for, whatever a token says


class JwtKeys:
    def __init__(self, path: Path, algorithms: Collection[str]) -> None:
        self._path = path
        self._algorithms = algorithms
        self._mark: object = None
        self.by_id: dict[str | None, Key] = {}  # another one where the file has changed
        try:
            self._load()
        except (OSError, ValueError, jwt.PyJWTError) as error:
            raise WrongSetting(
                f"HEADRACE_JWT_KEYS_FILE: {path} has no keys: {type(error).__name__}: {error}"
            ) from error

    def look(self) -> None:
        """Takes in a file that was changed: keys are added and revoked there."""
        if file_state(self._path) != self._mark:
            try:
                self._load()
            except (OSError, ValueError, jwt.PyJWTError) as error:
                log.error("the keys of %s stay as they were: %s", self._path, type(error).__name__)

    def _load(self) -> None:
        self._mark = file_state(self._path)  # before: what is written meanwhile is another file
        text = self._path.read_text()
        found = _of_pem(text) if text.startswith("-----BEGIN") else _of_jwks(text)
        keys = {key_id: key for key_id, key in found if key.algorithm in self._algorithms}
        if not keys:
            raise ValueError(f"none is for {', '.join(self._algorithms)}")
        self.by_id = keys


def _of_pem(text: str) -> list[tuple[str | None, Key]]:
    key = load_pem_public_key(text.encode())
    if isinstance(key, rsa.RSAPublicKey):
        return [(None, Key(key, "RS256"))]
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return [(None, Key(key, _CURVES[key.curve.name]))]
    if isinstance(key, ed25519.Ed25519PublicKey):
        return [(None, Key(key, "EdDSA"))]
    raise ValueError("a key of this kind signs no JWT")


def _of_jwks(text: str) -> list[tuple[str | None, Key]]:
    found: list[tuple[str | None, Key]] = []
    document = json.loads(text)
    rows = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError('a JWK set is an object with a list of "keys"')
    for row in rows:
        key = jwt.PyJWK(row)
        found.append((key.key_id, Key(key.key, key.algorithm_name)))
    if len({key_id for key_id, _ in found}) < len(found):
        raise ValueError('two keys have the same "kid"')
    return found
