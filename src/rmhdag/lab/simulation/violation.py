"""The one way to say that something must not be so."""

from __future__ import annotations


class Violation(Exception):
    """An invariant does not hold. The message begins with its name."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant
        self.message = message
