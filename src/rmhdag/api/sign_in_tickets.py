"""What a browser must bring back from the issuer, in a cookie of its own."""

from __future__ import annotations

import base64
from typing import NamedTuple

import orjson

# So long may a person take at the issuer.
TICKET_SECONDS = 600


class SignInFailed(Exception):
    """The issuer did not say who it is; the message is for the log."""


class Ticket(NamedTuple):
    """`back` is where the browser goes afterwards."""

    state: str
    verifier: str
    back: str

    def write(self) -> str:
        return base64.urlsafe_b64encode(orjson.dumps(list(self))).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Ticket:
        try:
            parts = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except ValueError:
            raise SignInFailed("the cookie is not one of ours") from None
        if not isinstance(parts, list) or len(parts) != 3 or not all(isinstance(part, str) for part in parts):
            raise SignInFailed("the cookie is not one of ours")
        return cls(*parts)
