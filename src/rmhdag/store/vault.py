"""Secrets at rest: sealed with AES-GCM, if the installation has a key for that, else as they are."""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Any

PLAIN, SEALED = "plain:", "aesgcm:"
NONCE_BYTES = 12


class SecretUnreadable(Exception):
    """It was sealed with another key than ours, or we have none."""


class Vault:
    """Seals what must be readable again. Bound to its place: a sealed secret is of no use anywhere else."""

    def __init__(self, passphrase: str | None = None) -> None:
        self._cipher: Any = None
        if passphrase:
            # Imported here: most processes seal nothing.
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            self._cipher = AESGCM(hashlib.sha256(passphrase.encode()).digest())

    def seal(self, secret: str, *place: str) -> str:
        if self._cipher is None:
            return PLAIN + secret
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, secret.encode(), "\n".join(place).encode())
        return SEALED + base64.b64encode(nonce + sealed).decode()

    def unseal(self, text: str, *place: str) -> str:
        if text.startswith(PLAIN):
            return text.removeprefix(PLAIN)
        if self._cipher is None or not text.startswith(SEALED):
            raise SecretUnreadable("the secret is sealed, and no key is configured here")
        from cryptography.exceptions import InvalidTag

        raw = base64.b64decode(text.removeprefix(SEALED))
        try:
            opened: bytes = self._cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], "\n".join(place).encode())
        except InvalidTag:
            raise SecretUnreadable("the secret was sealed with another key") from None
        return opened.decode()
