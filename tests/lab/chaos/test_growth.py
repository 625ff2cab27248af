"""What grows is told from what goes up and down, and from what is merely filled."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from rmhdag.lab.chaos.growth import Sample, growth_report, process_figures

MB = 1024 * 1024


def sampled(name: str, value: Callable[[int], float], count: int = 60) -> list[Sample]:
    """A sample a minute."""
    return [Sample(60.0 * number, {name: value(number)}) for number in range(count)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rss/worker-0", lambda number: 100 * MB + min(number, 20) * 20 * MB),
        ("rss/worker-0", lambda number: 100 * MB + (number % 7) * 5 * MB),
        ("rows/dag_jobs", lambda number: 50_000 + (number % 5) * 4_000),
        ("rows/dag_outbox", lambda number: 30 * number),
        ("bytes/dag_jobs", lambda number: 900 * MB - number * MB),
        ("connections/all", lambda number: 30 + number % 4),
    ],
    ids=["filled", "up and down", "pruned", "next to nothing", "shrinks", "connections"],
)
def test_what_stays_as_it_is_is_flat(name: str, value: Callable[[int], float]) -> None:
    report = growth_report(sampled(name, value))
    assert report["figures"][name]["flat"]
    assert report["grew"] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rss/orchestrator-1", lambda number: 100 * MB + number * 2 * MB),
        ("fds/worker-0", lambda number: 40 + number),
        ("connections/all", lambda number: 30 + number // 2),
        ("rows/dag_payloads", lambda number: 500 * number),
        ("bytes/dag_payloads", lambda number: 5 * number * MB),
    ],
)
def test_what_grows_is_named(name: str, value: Callable[[int], float]) -> None:
    assert growth_report(sampled(name, value))["grew"] == [name]


def test_a_few_samples_say_nothing() -> None:
    assert growth_report(sampled("fds/worker-0", lambda number: 100 * number, count=4))["figures"] == {}


def test_a_process_is_measured_with_its_children() -> None:
    figures = process_figures("me", os.getpid())
    assert figures["rss/me"] > MB
    assert figures["fds/me"] >= 3
    assert process_figures("gone", 2**22 + 1) == {}
