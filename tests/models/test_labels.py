"""Labels as callers write them: which are taken, and what the others are told."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from rmhdag.models.labels import LabelFilter, Labels, read_filter
from rmhdag.models.limits import LABEL_KEY_CHARACTERS, LABEL_VALUE_CHARACTERS, LABELS_OF_A_JOB

LABELS: TypeAdapter[dict[str, str]] = TypeAdapter(Labels)


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"aoi": "oslo", "team": "gis"},
        {"a.b-c_d9": "", "0": " "},
        {"k" * LABEL_KEY_CHARACTERS: "æøå 地図 🗺" * 20},
        {"note": "<script>alert(1)</script>' OR 1=1; -- ${jndi:x} %00 {{ inputs }}"},
    ],
)
def test_fine_labels(labels: dict[str, str]) -> None:
    assert LABELS.validate_python(labels) == labels


@pytest.mark.parametrize(
    "key",
    [
        "",
        "Aoi",
        "-a",
        ".a",
        "_a",
        "a b",
        "a=b",
        "a:b",
        "a/b",
        "ä",
        "a\n",
        "a\0",
        "ａ",
        "k" * (LABEL_KEY_CHARACTERS + 1),
    ],
)
def test_bad_keys(key: str) -> None:
    with pytest.raises(ValidationError, match="the key of a label has 1 to 63 characters"):
        LABELS.validate_python({key: "x"})


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (7, "write it in quotes"),
        (None, "write it in quotes"),
        (["oslo"], "write it in quotes"),
        ("x" * (LABEL_VALUE_CHARACTERS + 1), "has at most 200 characters, and this one has 201: shorten it"),
        ("a\0b", r"invisible character U\+0000 at position 2: remove it|NUL character"),
        ("a\nb", r"U\+000A at position 2"),
        ("a\x1b[31m", r"U\+001B"),
        ("oslo\u202e", r"U\+202E at position 5: remove it"),
        ("os\u200blo", r"U\+200B"),
        ("\ud800", "surrogate|unicode"),
    ],
)
def test_bad_values(value: Any, sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        LABELS.validate_python({"aoi": value})


def test_too_many() -> None:
    many = {f"k{number}": "" for number in range(LABELS_OF_A_JOB + 1)}
    with pytest.raises(ValidationError, match="at most 16 labels, and these are 17: leave some out"):
        LABELS.validate_python(many)


def test_filters() -> None:
    assert read_filter("aoi") == LabelFilter("aoi")
    assert read_filter("aoi=") == LabelFilter("aoi", "")
    assert read_filter("aoi=a=b c") == LabelFilter("aoi", "a=b c")
    for text in ("", "=", "=oslo", "Aoi=oslo", "a b", "aoi=\u202e", "aoi=" + "x" * 201):
        with pytest.raises(ValueError, match=r"label|invisible"):
            read_filter(text)
