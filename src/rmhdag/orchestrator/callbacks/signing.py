"""Signatures by the rules of Standard Webhooks, and secrets at rest: sealed, if the installation has a key for that."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PREFIX = "whsec_"
NEW_SECRET_BYTES = 32
FEWEST_BYTES, MOST_BYTES = 24, 64
PLAIN, SEALED = "plain:", "aesgcm:"
NONCE_BYTES = 12


class SecretUnreadable(Exception):
    """It was sealed with another key than ours, or we have none."""


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(NEW_SECRET_BYTES)).decode()


def check_secret(text: str) -> str:
    """ValueError unless it is a secret as Standard Webhooks writes them."""
    try:
        size = len(_key_of(text)) if text.startswith(PREFIX) else 0
    except ValueError:
        size = 0
    if not FEWEST_BYTES <= size <= MOST_BYTES:
        raise ValueError(f"a secret is `{PREFIX}` and the base64 of {FEWEST_BYTES} to {MOST_BYTES} bytes")
    return text


def sign(sign_with: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """One signature per secret: during a rotation the receiver may know either."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    made = [base64.b64encode(hmac.digest(_key_of(secret), signed, "sha256")).decode() for secret in sign_with]
    return " ".join(f"v1,{signature}" for signature in made)


def _key_of(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(PREFIX), validate=True)


class Vault:
    """Seals what must be readable again. Bound to its place: a sealed secret is no use for another endpoint."""

    def __init__(self, passphrase: str | None = None) -> None:
        self._cipher = None if not passphrase else AESGCM(hashlib.sha256(passphrase.encode()).digest())

    def seal(self, secret: str, namespace: str, url: str) -> str:
        if self._cipher is None:
            return PLAIN + secret
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, secret.encode(), _place(namespace, url))
        return SEALED + base64.b64encode(nonce + sealed).decode()

    def unseal(self, text: str, namespace: str, url: str) -> str:
        if text.startswith(PLAIN):
            return text.removeprefix(PLAIN)
        if self._cipher is None or not text.startswith(SEALED):
            raise SecretUnreadable("the endpoint's secret is sealed, and no key is configured here")
        raw = base64.b64decode(text.removeprefix(SEALED))
        try:
            opened = self._cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], _place(namespace, url))
        except InvalidTag:
            raise SecretUnreadable("the endpoint's secret was sealed with another key") from None
        return opened.decode()


def _place(namespace: str, url: str) -> bytes:
    return f"{namespace}\n{url}".encode()
