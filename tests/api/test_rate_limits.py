"""How many jobs a key may submit in a second."""

import pytest

from rmhdag.api.problems import Problem
from rmhdag.api.rate_limits import MOST_CALLERS, RateLimit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_fills_with_time() -> None:
    clock = Clock()
    limit = RateLimit(10.0, clock=clock)
    limit.take("a", 20)
    with pytest.raises(Problem) as caught:
        limit.take("a", 15)
    assert (caught.value.status_code, caught.value.headers) == (429, {"Retry-After": "2"})
    clock.now = 1.5
    limit.take("a", 15)
    with pytest.raises(Problem):
        limit.take("a", 1)
    limit.take("b", 20)


def test_more_than_a_bucket_holds_is_paid_for_later() -> None:
    clock = Clock()
    limit = RateLimit(100.0, clock=clock)
    limit.take("a", 1_000)
    clock.now = 7.9
    with pytest.raises(Problem):
        limit.take("a", 1)
    clock.now = 8.1
    limit.take("a", 1)


def test_callers_are_forgotten_when_they_are_many() -> None:
    limit = RateLimit(1.0, clock=Clock())
    limit.take("first", 2)
    for number in range(MOST_CALLERS):
        limit.take(str(number), 1)
    limit.take("first", 2)
