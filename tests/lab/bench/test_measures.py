"""Numbers from samples."""

import pytest

from rmhdag.lab.bench.measures import compare, percentile


def test_a_percentile_is_an_observed_value() -> None:
    samples = [float(number) for number in range(1, 101)]
    assert percentile(samples, 0.5) == 51
    assert percentile(samples, 0.99) == 100
    assert percentile([7.0], 0.99) == 7
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)


def test_a_comparison_interleaves_and_takes_medians_of_pairs() -> None:
    order: list[str] = []
    # The machine gets slower and slower; the pairs do not mind.
    speeds = iter([100.0, 50.0, 40.0, 80.0, 60.0, 30.0, 20.0, 40.0, 20.0, 10.0])

    def first() -> float:
        order.append("first")
        return next(speeds)

    def second() -> float:
        order.append("second")
        return next(speeds)

    compared = compare(first, second, pairs=5)
    assert order == ["first", "second", "second", "first", "first", "second", "second", "first", "first", "second"]
    assert compared["ratio"] == 0.5
    assert compared["first"] == 60
    assert compared["second"] == 30
