"""Masking takes time in proportion to the text, whatever is in it."""

from __future__ import annotations

from time import process_time

import pytest

from rmhdag.observability.secrets import MASK, mask_and_cut, mask_text

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
