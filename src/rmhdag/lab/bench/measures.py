"""Numbers from samples, and the comparison of two settings on a machine that has other work too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

PAIRS = 5


def percentile(samples: Sequence[float], share: float) -> float:
    """The nearest rank: an observed value, never one between two."""
    if not samples:
        raise ValueError("there is no percentile of no samples")
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def compare(first: Callable[[], float], second: Callable[[], float], pairs: int = PAIRS) -> dict[str, Any]:
    """Median of each, and the median of second ÷ first over interleaved pairs.

    Both halves of a pair meet the machine in the same mood; the order within the pair alternates, so that neither
    always comes second.
    """
    if pairs < 1:
        raise ValueError("a comparison needs at least one pair")
    firsts, seconds = [], []
    for number in range(pairs):
        if number % 2:
            seconds.append(second())
            firsts.append(first())
        else:
            firsts.append(first())
            seconds.append(second())
    return {
        "first": median(firsts),
        "second": median(seconds),
        "ratio": median(b / a for a, b in zip(firsts, seconds, strict=True)),
        "pairs": pairs,
    }
