"""Masking takes time in proportion to the text, whatever is in it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import StringIO
from time import process_time

import orjson
import pytest

from rmhdag.handlers import NonRetryableError
from rmhdag.observability.secrets import MASK, hidden_forms, known_secrets, mask_and_cut, mask_text
from rmhdag.worker.child import Channel, TaskLink, TaskStream, begin_run, end_run
from rmhdag.worker.printed import PrintedLines

HOSTILE = {
    "token starts": "-eyJ",
    "token starts with dots": "-eyJa.",
    "open quotes": 'token=\\" ',
    "open quotes and an end that is none": 'token="\\" ',
    "backslashes": "token=\\\\",
    "urls": "a://b:",
    "bearer": "bearer  ",
    "names": "password",
    "keys": "rmhdag_0123456789abcdef",
    "whsec": "whsec_ whsec_",
    "authorization": "authorization: basic  ",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("end", ["", "\\\n", ".", "'"])
def test_a_long_text_is_masked_in_seconds(piece: str, end: str) -> None:
    """Quadratic would be minutes: the bound is generous."""
    text = piece * (300_000 // len(piece)) + end
    before = process_time()
    mask_text(text)
    assert process_time() - before < 20


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("eyJhbGciOi.eyJzdWIi.c2ln", MASK),
        ("x eyJhbGciOi.eyJzdWIi.c2ln y", f"x {MASK} y"),
        ("id-eyJhbGciOi.eyJzdWIi", f"id-{MASK}"),
        ("a.b.eyJhbGciOi.eyJzdWIi.c2ln.more", f"a.b.{MASK}.more"),
        ("-eyJ-eyJhbGciOi.eyJzdWIi.", f"-{MASK}"),
        ("heyJude.mp3", "heyJude.mp3"),
        ("eyJhbGciOi", "eyJhbGciOi"),
        ("eyJab.cd", "eyJab.cd"),
        ('password="never closed and more', f"password={MASK}"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert mask_text(text) == shown


def test_long_texts_are_cut_first() -> None:
    assert mask_and_cut("word " * 1_000, 100) == ("word " * 20)
    assert mask_and_cut("short", 100) == "short"
    secret = "postgresql://user:" + "p" * 10_000 + "@host/db"
    assert "pp" not in mask_and_cut(secret, 100)
    assert "pp" not in mask_and_cut("x " * 150 + secret, 100)
    assert "pp" not in mask_and_cut("x " * 40 + secret, 100)


@contextmanager
def knowing(*secrets: str) -> Iterator[None]:
    token = known_secrets.set(hidden_forms(secrets))
    try:
        yield
    finally:
        known_secrets.reset(token)


SECRET = "Zq7-correct horse battery staple-019"


@pytest.mark.parametrize("most", [100, 500, 2_000])
@pytest.mark.parametrize("filling", ["x", "password=longword ", "some words "])
def test_a_known_secret_is_hidden_wherever_it_is_cut(most: int, filling: str) -> None:
    """At the end of what is shown, and at the end of what is looked at."""
    with knowing(SECRET):
        for place in (0, most, 4 * most):
            for letters in range(max(0, place - len(SECRET) - 2), place + 3):
                start = (filling * (letters // len(filling) + 1))[:letters]
                shown = mask_and_cut(start + SECRET + " and more" * most, most)
                assert len(shown) <= most
                assert not any(piece in shown for piece in ("Zq7", "horse", "battery", "019")), (place, letters)


def test_a_secret_that_was_quoted_in_part_is_hidden() -> None:
    """As Pydantic quotes long values, without their middle."""
    with knowing(SECRET, 'with "quotes"\nand lines'):
        assert mask_text(f"input_value='{SECRET[:12]}...{SECRET[-12:]}'") == f"input_value='{MASK}...{MASK}'"
        assert mask_text(repr('with "quotes"\nand lines')) == f"'{MASK}'"


def test_the_message_of_a_coded_error_is_masked_before_it_is_cut() -> None:
    error = NonRetryableError("x " * 985 + "at postgresql://me:hunter2hunter2@host/db", code="CRS_MISSING").error
    assert error is not None
    assert "hunter2" not in error.message


def printed(*pieces: str, secrets: tuple[str, ...] = (), flush: bool = False) -> str:
    """What the parent hears of a task that prints these pieces."""
    ours, theirs = socket.socketpair()
    with closing(theirs):
        channel = Channel(ours.detach())
        link = TaskLink(channel, 7, hidden_forms(secrets))
        begin_run(link)
        stream = TaskStream(StringIO())
        for piece in pieces:
            print(piece, end="", file=stream, flush=flush)
        end_run()
        link.say_the_rest()
        channel.socket.close()
        data = b"".join(iter(lambda: theirs.recv(1 << 20), b""))
    return "".join(orjson.loads(line)[2] for line in data.splitlines())


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        (("password:", " ", "hunter2", "\n"), f"password: {MASK}\n"),
        (("token=", "abc", "def"), f"token={MASK}"),
        (("one\ntoken=", "abc\ntwo"), f"one\ntoken={MASK}\ntwo"),
        (("half", " a line"), "half a line"),
    ],
)
def test_a_name_and_its_secret_may_be_printed_one_after_the_other(pieces: tuple[str, ...], told: str) -> None:
    """`print("password:", password)` writes four pieces."""
    assert printed(*pieces) == told


def test_a_line_of_the_log_comes_behind_what_was_printed_before_it() -> None:
    ours, theirs = socket.socketpair()
    with closing(theirs):
        link = TaskLink(Channel(ours.detach()), 7)
        link.write("half a line")
        link.log("INFO a record\n")
        link.channel.socket.close()
        lines = theirs.recv(1 << 20).splitlines()
    assert [orjson.loads(line)[2] for line in lines] == ["half a line", "INFO a record\n"]


def test_flushed_text_is_told_at_once() -> None:
    assert printed("50 %", "100 %", flush=True) == "50 %100 %"


@pytest.mark.parametrize("start", range(65_536 - 40, 65_536 + 2))
def test_a_long_line_is_not_cut_within_a_known_secret(start: int) -> None:
    lines = PrintedLines(hidden_forms([SECRET]))
    text = "x" * start + SECRET + "x" * 10
    shown = [lines.add(letter) for letter in (text[:65_530], *text[65_530:])] + [lines.rest()]
    assert "".join(shown) == text
    assert any(SECRET in piece for piece in shown)
