"""Tokens of an issuer that partners send instead of a key. The API reads them: what checks signatures is large and slow
to load, and the settings of issuers are in one place.

A token that was read is remembered, so that a poll needs the API no more than one with a key does.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from rmhdag.gateway.problems import Problem
from rmhdag.models.api.clients import MOST_TOKEN_CHARACTERS, TokenIdentity

# After this time the API is asked again: an issuer may have withdrawn the key that has signed it. While the API is
# away, a token counts as long as it says itself.
REMEMBER_SECONDS = 600.0
MOST_REMEMBERED = 10_000

Read = Callable[[str], Awaitable[TokenIdentity]]


def is_token(text: str) -> bool:
    """A signed one, in its compact form; keys have no dots."""
    return text.count(".") == 2 and len(text) <= MOST_TOKEN_CHARACTERS


class Tokens:
    def __init__(self, read: Read, clock: Callable[[], float] = time.time) -> None:
        self._read = read
        self._clock = clock
        self._remembered: OrderedDict[bytes, tuple[float, TokenIdentity]] = OrderedDict()

    async def identity_of(self, text: str) -> TokenIdentity:
        """Raises a 401 if it proves nothing, and a 503 if nobody can say now."""
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        until, memory = self._remembered.get(digest, (0.0, None))
        if memory is not None and memory.expires_at <= self._clock():
            del self._remembered[digest]
            memory = None
        if memory is not None and self._clock() < until:
            return memory
        try:
            identity = await self._read(text)
        except Problem as problem:
            if problem.status == 503 and memory is not None:
                return memory
            self._remembered.pop(digest, None)
            raise
        self._remembered[digest] = (self._clock() + REMEMBER_SECONDS, identity)
        self._remembered.move_to_end(digest)
        if len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return identity
