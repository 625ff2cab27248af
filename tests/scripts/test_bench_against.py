"""`scripts/bench-against`: how pairs become ratios, and what happens with a figure that the earlier commit lacks."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/bench_against.py"


@pytest.fixture
def against(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_against", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    monkeypatch.setitem(sys.modules, "bench_against", module)
    spec.loader.exec_module(module)
    return module


def rounds(*pairs: tuple[dict[str, Any], dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return list(pairs)


def test_a_ratio_is_the_median_of_the_pairs_and_above_one_is_better(against: ModuleType) -> None:
    mine, other = {"tasks_per_second": 200.0}, {"tasks_per_second": 100.0}
    # The machine became ten times slower for the last pair, which no median of single figures would survive.
    slow = ({"tasks_per_second": 30.0}, {"tasks_per_second": 10.0})
    comparison = against.Comparison(rounds={"fan_out": rounds((mine, other), (other, mine), slow)})
    comparison.rounds["hop"] = rounds(({"p50_ms": 2.0}, {"p50_ms": 4.0}))
    lines = {line["figure"]: line for line in against.summarise(comparison)}
    assert lines["fan_out tasks_per_second"]["ratios"] == [2.0, 0.5, 3.0]
    assert lines["fan_out tasks_per_second"]["ratio"] == 2.0
    assert lines["hop p50_ms"]["ratio"] == 2.0
    assert comparison.left_out["hop ratio_to_bare"] == "not a figure of both commits"


def test_a_figure_of_nested_results_is_found_by_its_path(against: ModuleType) -> None:
    numbers = {"rmhdag jobs": {"processor_median_ms": 7.5}, "good": True}
    assert against.figure_of(numbers, "rmhdag jobs/processor_median_ms") == 7.5
    assert against.figure_of(numbers, "rmhdag jobs/wall/best") is None
    assert against.figure_of(numbers, "good") is None


def test_what_the_earlier_commit_cannot_run_is_reported_and_left_out(
    against: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for tree in (here, there):
        tree.mkdir()
        (tree / "both.py").write_text("print('{\"count\": 3}')")
    (here / "new.py").write_text("print('{}')")
    monkeypatch.setattr(against, "HERE", here)

    def benchmark(file: str) -> Any:
        return against.Benchmark(lambda tree: against.call([sys.executable, file], tree), {"count": True})

    monkeypatch.setattr(against, "BENCHMARKS", {"both": benchmark("both.py"), "new": benchmark("new.py")})
    comparison = against.compare(["both", "new"], there, 2)
    assert list(comparison.rounds) == ["both"]
    assert comparison.rounds["both"] == [({"count": 3}, {"count": 3})] * 2
    assert "the earlier commit cannot run it (exit 2" in comparison.left_out["new"]
    assert not comparison.is_broken
    (here / "both.py").unlink()
    broken = against.compare(["both"], there, 1)
    assert "this tree cannot run it (exit 2" in broken.left_out["both"]
    assert broken.is_broken
