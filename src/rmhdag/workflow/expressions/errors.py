"""What can go wrong with an expression, as exceptions that carry a text for people."""

from __future__ import annotations


class ExpressionError(Exception):
    """`message` says what is wrong and what to do; line and column count from 1 inside the template's text."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.source: str | None = None  # the template, for what is only found when it is evaluated

    def __str__(self) -> str:
        return self.message if self.source is None else f"{self.message} (in `{self.source}`)"


class Missing(ExpressionError):
    """A reference has no value; `default(…)` and `is defined` take this as an answer, all else fails with it."""

    @property
    def reason(self) -> str:
        return self.message
