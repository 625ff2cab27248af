"""How often to look at all of a queue or inbox, and not only above a mark.

Rows that are gone stay in the index while some old snapshot may still see them, and a look at all walks past each of
them: after 200,000 tasks beside a forgotten transaction the looks of one second took a quarter of it.
"""

from __future__ import annotations

WHOLE_EVERY_SECONDS = 1.0
MOST_SECONDS = 5.0
# At most one part in so many of the time goes into looks at all, or into one duty, unless it takes very long.
PARTS = 30


def pause_seconds(last_took_seconds: float) -> float:
    """The least pause after something that took so long."""
    return min(MOST_SECONDS, PARTS * last_took_seconds)


def whole_pause_seconds(last_took_seconds: float) -> float:
    return max(WHOLE_EVERY_SECONDS, pause_seconds(last_took_seconds))
