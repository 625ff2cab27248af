"""What a task prints, by whole lines: a name and its secret may be printed one after the other."""

from __future__ import annotations

from rmhdag.models.limits import LOG_CHUNK_BYTES
from rmhdag.observability.secrets import unfinished


class PrintedLines:
    """Pieces in, whole lines out. A line without an end is passed on at some length, if possible between words, and
    never within one of the secrets."""

    __slots__ = ("_length", "_pieces", "_secrets")

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self._secrets = secrets
        self._pieces: list[str] = []
        self._length = 0

    def add(self, text: str) -> str:
        """What can be passed on now; empty if the line goes on."""
        self._pieces.append(text)
        self._length += len(text)
        if "\n" not in text and self._length < LOG_CHUNK_BYTES:
            return ""
        whole = self.rest()
        end = whole.rfind("\n") + 1
        if not end:
            end = whole.rfind(" ", len(whole) // 2) + 1 or len(whole)
            end -= unfinished(whole[:end], self._secrets)
        self._keep(whole[end:])
        return whole[:end]

    def rest(self) -> str:
        """All of it, whether the line has ended or not."""
        whole = "".join(self._pieces)
        self._keep("")
        return whole

    def _keep(self, text: str) -> None:
        self._pieces = [text] if text else []
        self._length = len(text)
