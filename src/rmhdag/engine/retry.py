"""How long to wait before the next attempt."""

from __future__ import annotations

from rmhdag.workflow.definition import RetryRule


def retry_delay_seconds(rule: RetryRule, failures: int, jitter: float) -> float:
    """The wait after the `failures`-th failed attempt (1, 2, …); `jitter` is a number in [0, 1) from outside.

    `none` waits the same time each time, `linear` n times as long, `exponential` twice as long as before. The rule's
    jitter spreads the wait by its share in both directions; no wait exceeds `max_delay_seconds`.
    """
    if rule.backoff == "none":
        delay = rule.initial_delay_seconds
    elif rule.backoff == "linear":
        delay = rule.initial_delay_seconds * failures
    else:
        # 2**64 seconds exceeds every limit, so larger exponents are not needed.
        delay = rule.initial_delay_seconds * 2.0 ** min(failures - 1, 64)
    delay = min(delay, rule.max_delay_seconds)
    return min(delay * (1.0 + rule.jitter * (2.0 * jitter - 1.0)), rule.max_delay_seconds)
