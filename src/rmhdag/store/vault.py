"""Secrets at rest, sealed with AES-GCM: by a key that scrypt makes of a passphrase, else by a random key in a file.

A secret is stored as it is only if a setting says so, or if there is no installation at all, as in tests.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import psycopg

# By the SHA-256 of a passphrase: what older versions made, and only opened here.
PLAIN, HASHED, STRETCHED, KEYED = "plain:", "aesgcm:", "scrypt:", "keyed:"
NONCE_BYTES = 12
SALT_BYTES = 16
KEY_BYTES = 32
# 32 MB and some 60 ms: little for a process, which does it once, and much for an attacker who tries passphrases.
SCRYPT = {"n": 2**15, "r": 8, "p": 1, "maxmem": 64 * 1024 * 1024}


class SecretUnreadable(Exception):
    """It was sealed with another key than ours, or we have none."""


class SecretNotSealed(SecretUnreadable):
    """It would have to be stored as it is, or so that others cannot open it."""


SHARE = (
    "every machine needs the same key: name one file by RMHDAG_SECRET_KEY_FILE everywhere, or set RMHDAG_SECRET_KEY "
    "and RMHDAG_CALLBACK_SECRET_KEY to the same passphrases"
)


class KeyFile(NamedTuple):
    """A file with 32 random bytes as hex digits. `may_make`: the first process that seals creates it. `is_shared`:
    other machines may use the same database, and seal with their own.
    """

    path: Path
    may_make: bool = False
    is_shared: bool = False

    def read(self) -> bytes | None:
        try:
            text = self.path.read_text(encoding="ascii").strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise SecretUnreadable(f"the key file {self.path} cannot be read: {type(error).__name__}") from None
        if self.path.stat().st_mode & 0o077:
            raise SecretUnreadable(f"the key file {self.path} is open to others: run `chmod 600` on it")
        if len(text) != 2 * KEY_BYTES or not set(text.lower()) <= set("0123456789abcdef"):
            raise SecretUnreadable(f"the key file {self.path} does not hold {2 * KEY_BYTES} hex digits")
        return bytes.fromhex(text)

    def read_or_make(self) -> bytes | None:
        key = self.read()
        if key is not None or not self.may_make:
            return key
        try:
            self.make()
        except OSError as error:
            raise SecretNotSealed(
                f"the key file {self.path} does not exist and cannot be created ({error.strerror}), and secrets are "
                f"not stored unencrypted; {SHARE}. RMHDAG_PLAIN_SECRETS=1 stores them as they are"
            ) from None
        return self.read()

    def make(self) -> None:
        """Written aside and linked: of two that make it at once one wins, and nobody reads half of it."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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


class Vault:
    """Seals what must be readable again. Bound to its place: a sealed secret is of no use anywhere else."""

    def __init__(
        self, passphrase: str | None = None, key_file: KeyFile | None = None, *, allow_plain: bool = False
    ) -> None:
        self._passphrase = passphrase or None
        self._key_file = key_file
        self._allow_plain = allow_plain
        self._salt = os.urandom(SALT_BYTES)
        self._is_ready = False

    def prepare(self, conn: psycopg.Connection[Any]) -> None:
        """Before something is sealed for this database: raises SecretNotSealed if others could not open it."""
        file = self._key_file
        if self._is_ready or self._passphrase is not None or file is None or not file.is_shared:
            return
        # Here, because a worker over HTTP opens secrets and has no driver of a database.
        from rmhdag.store import callback_endpoints

        sample = callback_endpoints.find_sealed_by_file(conn)
        if sample is not None:
            if file.read() is None:
                raise SecretNotSealed(
                    f"secrets of this database are encrypted with the key of another machine: copy `{file.path.name}` "
                    f"from its data folder to {file.path}, with mode 0600; {SHARE}"
                )
            try:
                self.unseal(sample.secret, sample.namespace, sample.url)
            except SecretUnreadable:
                raise SecretNotSealed(
                    f"secrets of this database are encrypted with another key than that of {file.path}; {SHARE}"
                ) from None
        self._is_ready = True

    def seal(self, secret: str, *place: str) -> str:
        if self._passphrase is not None:
            sealed = _encrypt(_stretch(self._passphrase, self._salt), secret, place)
            return STRETCHED + base64.b64encode(self._salt + sealed).decode()
        key = None
        try:
            key = None if self._key_file is None else self._key_file.read_or_make()
            if key is None and self._key_file is not None:
                raise SecretNotSealed(f"the key file {self._key_file.path} does not exist; {SHARE}")
        except SecretNotSealed:
            if not self._allow_plain:
                raise
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
            raise SecretUnreadable("the secret is encrypted in a way that this version does not support")
        key, sealed = openers[kind](base64.b64decode(body))
        if key is None:
            what = "the key file is not here" if kind == KEYED else "no key is configured here"
            raise SecretUnreadable(f"the secret is encrypted, and {what}: {SHARE}")
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
        raise SecretUnreadable("the secret was encrypted with another key") from None
    return opened.decode()


# What seals secret inputs in this process, as its settings say.
_of_inputs = [Vault()]


def use_for_inputs(vault: Vault) -> None:
    _of_inputs[0] = vault


def vault_of_inputs() -> Vault:
    return _of_inputs[0]
