"""Signatures by the rules of Standard Webhooks. `rmhdag.store.vault` encrypts their secrets."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Sequence

from rmhdag.store.vault import SecretNotSealed as SecretNotSealed
from rmhdag.store.vault import SecretUnreadable as SecretUnreadable
from rmhdag.store.vault import Vault as Vault

PREFIX = "whsec_"
NEW_SECRET_BYTES = 32
FEWEST_BYTES, MOST_BYTES = 24, 64


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(NEW_SECRET_BYTES)).decode()


def check_secret(text: str) -> str:
    """Raises ValueError unless the text is a secret in the form of Standard Webhooks."""
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
    signatures = [base64.b64encode(hmac.digest(_key_of(secret), signed, "sha256")).decode() for secret in sign_with]
    return " ".join(f"v1,{signature}" for signature in signatures)


def _key_of(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
