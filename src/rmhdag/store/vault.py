"""Secrets at rest, sealed with AES-GCM: by a key that scrypt makes of a passphrase, else by a random key in a file.

Only an installation that has neither stores them as they are.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

# By the SHA-256 of a passphrase: what older versions made, and only opened here.
PLAIN, HASHED, STRETCHED, KEYED = "plain:", "aesgcm:", "scrypt:", "keyed:"
NONCE_BYTES = 12
SALT_BYTES = 16
KEY_BYTES = 32
# 32 MB and some 60 ms: nothing for us, who do it once, and much for whoever tries passphrases.
SCRYPT = {"n": 2**15, "r": 8, "p": 1, "maxmem": 64 * 1024 * 1024}


class SecretUnreadable(Exception):
    """It was sealed with another key than ours, or we have none."""


class KeyFile(NamedTuple):
    """A file with 32 random bytes as hex digits. `may_make`: whoever seals first makes it."""

    path: Path
    may_make: bool = False

    def read(self) -> bytes | None:
        try:
            text = self.path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise SecretUnreadable(f"the key file {self.path} cannot be read: {type(error).__name__}") from None
        if self.path.stat().st_mode & 0o077:
            raise SecretUnreadable(f"the key file {self.path} is open to others: run `chmod 600` on it")
        if len(text) != 2 * KEY_BYTES or not set(text.lower()) <= set("0123456789abcdef"):
            raise SecretUnreadable(f"the key file {self.path} does not hold {2 * KEY_BYTES} hex digits")
        return bytes.fromhex(text)

    def read_or_make(self) -> bytes | None:
        found = self.read()
        if found is not None or not self.may_make:
            return found
        # Written aside and linked: of two that make it at once one wins, and nobody reads half of it.
        fresh = self.path.with_name(f"{self.path.name}.{os.urandom(4).hex()}")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as stream:
            stream.write(os.urandom(KEY_BYTES).hex() + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        try:
            with suppress(FileExistsError):
                os.link(fresh, self.path)
        finally:
            fresh.unlink()
        return self.read()


class Vault:
    """Seals what must be readable again. Bound to its place: a sealed secret is of no use anywhere else."""

    def __init__(self, passphrase: str | None = None, key_file: KeyFile | None = None) -> None:
        self._passphrase = passphrase or None
        self._key_file = key_file
        self._salt = os.urandom(SALT_BYTES)

    def seal(self, secret: str, *place: str) -> str:
        if self._passphrase is not None:
            sealed = _encrypt(_stretch(self._passphrase, self._salt), secret, place)
            return STRETCHED + base64.b64encode(self._salt + sealed).decode()
        key = None if self._key_file is None else self._key_file.read_or_make()
        if key is None:
            return PLAIN + secret
        return KEYED + base64.b64encode(_encrypt(key, secret, place)).decode()

    def unseal(self, text: str, *place: str) -> str:
        kind, _, body = text.partition(":")
        kind += ":"
        if kind == PLAIN:
            return body
        openers: dict[str, Callable[[bytes], tuple[bytes | None, bytes]]] = {
            HASHED: lambda raw: (self._hashed(), raw),
            STRETCHED: lambda raw: (self._stretched(raw[:SALT_BYTES]), raw[SALT_BYTES:]),
            KEYED: lambda raw: (None if self._key_file is None else self._key_file.read(), raw),
        }
        if kind not in openers:
            raise SecretUnreadable("the secret is sealed in a way that this version does not know")
        key, sealed = openers[kind](base64.b64decode(body))
        if key is None:
            what = "the key file is not here" if kind == KEYED else "no key is configured here"
            raise SecretUnreadable(f"the secret is sealed, and {what}")
        return _decrypt(key, sealed, place)

    def _hashed(self) -> bytes | None:
        return None if self._passphrase is None else hashlib.sha256(self._passphrase.encode()).digest()

    def _stretched(self, salt: bytes) -> bytes | None:
        return None if self._passphrase is None else _stretch(self._passphrase, salt)


@lru_cache(maxsize=64)
def _stretch(passphrase: str, salt: bytes) -> bytes:
    return hashlib.scrypt(passphrase.encode(), salt=salt, dklen=KEY_BYTES, **SCRYPT)


def _cipher(key: bytes) -> Any:
    # Imported here: most processes seal nothing.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _encrypt(key: bytes, secret: str, place: tuple[str, ...]) -> bytes:
    nonce = os.urandom(NONCE_BYTES)
    sealed: bytes = _cipher(key).encrypt(nonce, secret.encode(), "\n".join(place).encode())
    return nonce + sealed


def _decrypt(key: bytes, raw: bytes, place: tuple[str, ...]) -> str:
    from cryptography.exceptions import InvalidTag

    try:
        opened: bytes = _cipher(key).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], "\n".join(place).encode())
    except InvalidTag:
        raise SecretUnreadable("the secret was sealed with another key") from None
    return opened.decode()


# What seals secret inputs in this process, as its settings say.
_of_inputs = [Vault()]


def use_for_inputs(vault: Vault) -> None:
    _of_inputs[0] = vault


def vault_of_inputs() -> Vault:
    return _of_inputs[0]
