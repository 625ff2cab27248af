"""Plain calls take a short way past the argument parser; both ways must say and answer the same."""

import io
from itertools import combinations
from pathlib import Path

import pytest

from rmhdag.cli.main import parse_and_run, run
from rmhdag.cli.plain import FLAGS, run_plain

GOOD = "workflow_id: good\nnodes:\n  a: {handler: echo, queue: light, next: b}\n  b: {handler: echo, queue: light}\n"
BAD = "workflow_id: bad\nnodes:\n  a: {handler: ecko, queue: light, nxet: b}\n"
FILES = ("good.yaml", "bad.yaml", "flows", "absent.yaml", "empty", "-")

PLAIN = [
    *((command, *flags, name) for command in FLAGS for flags in combinations(FLAGS[command], 1) for name in FILES),
    *((command, name) for command in FLAGS for name in FILES),
    *((command, "good.yaml", *flags) for command in FLAGS for flags in combinations(FLAGS[command], 2)),
    ("validate", "good.yaml", "bad.yaml", "flows"),
    ("validate", "--json", "good.yaml", "--json", "good.yaml"),
    ("graph", "--svg", "good.yaml", "--svg"),
    ("validate", ""),
    ("graph", ""),
]
NEEDS_THE_PARSER = [
    (),
    ("doctor",),
    ("--no-color", "validate", "good.yaml"),
    ("validate",),
    ("validate", "--json"),
    ("validate", "--help", "good.yaml"),
    ("validate", "--jso", "good.yaml"),
    ("validate", "--", "good.yaml"),
    ("validate", "--queue", "light", "good.yaml"),
    ("validate", "--svg", "good.yaml"),
    ("graph", "good.yaml", "bad.yaml"),
    ("graph", "-o", "x.svg", "good.yaml"),
    ("graph", "--width=40", "good.yaml"),
]


@pytest.fixture(autouse=True)
def files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    Path("good.yaml").write_text(GOOD)
    Path("bad.yaml").write_text(BAD)
    Path("flows").mkdir()
    Path("flows/twin.yaml").write_text(GOOD)
    Path("empty").mkdir()


@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_both_ways_say_and_answer_the_same(
    words: tuple[str, ...], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def plainly(arguments: list[str]) -> int:
        code = run_plain(arguments)
        assert code is not None
        return code

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    short = run(list(words), plainly), capfd.readouterr()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    long = run(list(words), parse_and_run), capfd.readouterr()
    assert short == long
    assert short[1].out or short[1].err


@pytest.mark.parametrize("words", NEEDS_THE_PARSER, ids=" ".join)
def test_what_is_not_plain_is_left_to_the_parser(words: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    assert run_plain(words) is None
    assert capfd.readouterr() == ("", "")
