"""How often to scan a whole queue or inbox, and not only the part above a mark.

Deleted rows stay in the index while an old snapshot may still see them, and a whole scan reads each of them: after
200,000 tasks beside a forgotten transaction, the scans of one second took a quarter of it.
"""

from __future__ import annotations

WHOLE_EVERY_SECONDS = 1.0
MOST_SECONDS = 5.0
# Whole scans, or one duty, take at most one part in this many of the time, unless a single one takes very long.
PARTS = 30
IDLE_PARTS = 3


def pause_seconds(last_took_seconds: float) -> float:
    """The shortest pause after work that took this long."""
    return min(MOST_SECONDS, PARTS * last_took_seconds)


def whole_pause_seconds(last_took_seconds: float, *, is_idle: bool = False) -> float:
    """A loop that has nothing else to do may scan more often.

    On a machine at its limits, reports are committed seconds after they were numbered, below the mark: only a whole
    scan sees them. In a soak at a load of 15 they once waited for ten seconds while their orchestrator was idle.
    """
    parts = IDLE_PARTS if is_idle else PARTS
    return max(WHOLE_EVERY_SECONDS, min(MOST_SECONDS, parts * last_took_seconds))
