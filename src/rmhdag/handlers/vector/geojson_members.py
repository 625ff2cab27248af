"""A large FeatureCollection becomes a sequence of its features where it lies, without being parsed.

GDAL leaves out members that are not features without a word, and remembers the number of every feature of a collection.
So the members are found here by their brackets, and each begins with a separator when GDAL reads the file (RFC 8142).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rmhdag.handlers.vector.geojson import (
    FEATURE_ID,
    MOST_BYTES,
    MOST_RECORD_MB,
    NO_IDS,
    SEPARATOR,
    FeatureIds,
    check_kind,
    invalid_json,
    load_json,
    no_features,
    not_a_feature,
    not_utf8,
    parse_json,
)
from rmhdag.handlers.vector.refusals import VectorRefused
from rmhdag.handlers.vector_limits import MEGABYTE

PIECE_BYTES = 2 * MEGABYTE
MOST_GAP_BYTES = 4096
MOST_TYPE_BYTES = 64
QUOTE, OPEN_OBJECT, OPEN_ARRAY, CLOSE = 1, 2, 3, 4
KINDS = bytes({34: QUOTE, 123: OPEN_OBJECT, 91: OPEN_ARRAY, 125: CLOSE, 93: CLOSE}.get(code, 0) for code in range(256))
STEPS = np.array([0, 0, 1, 1, -1])
ESCAPED = re.compile(rb"\\.", re.DOTALL)
FEATURES = re.compile(rb'"features"\s*:\s*\Z')
# As nearly every program writes it; all other members are parsed.
FEATURE = re.compile(rb'\{\s*"type"\s*:\s*"Feature"\s*[,}]')
# The `id` of such a member where it comes right after the type. Behind the properties it is found by parsing.
ID = re.compile(rb'\{\s*"type"\s*:\s*"Feature"\s*,\s*"id"\s*:(?:\s*(0|[1-9]\d{0,17})\s*[,}]|(?!\s*null))')
BLANK = bytes(code if code in b"\r\n" else 32 for code in range(256))
MEMBERS_DEPTH, MEMBER_DEPTH = 2, 3
SAMPLE = b'{"type": "Feature", "properties": null, "geometry": null}'


class Sequence(NamedTuple):
    """How many features there are, and a document with one of them and everything else."""

    feature_count: int
    sample: bytes
    ids: FeatureIds = NO_IDS


def to_sequence(path: Path, name: str) -> Sequence | None:
    """Overwrites what is between the features, so that lines stay where they are. None if the document is something
    else than a collection. Raises VectorRefused for a member that is not a feature.
    """
    with path.open("r+b") as file:
        return _Members(file.fileno(), name).separate()


class _Members:
    def __init__(self, file: int, name: str) -> None:
        self._file = file
        self._name = name
        self._count = 0
        self._commas: list[int] = []
        self._ids = FeatureIds()
        self._parses_all = False

    def separate(self) -> Sequence | None:
        begin = end = first_end = -1
        last = start = 0
        for brackets in self._pieces():
            for place, kind, depth in brackets:
                if depth == MEMBERS_DEPTH and kind == OPEN_ARRAY and self._is_named_features(place):
                    if begin >= 0:
                        raise self._refused("has two members named features", "VECTOR_FORMAT_MISMATCH")
                    begin, last = place, place + 1
                elif begin < 0 or end >= 0:
                    continue
                elif depth == MEMBERS_DEPTH:
                    self._check_gap(last, place, is_end=True)
                    end = place
                elif depth == MEMBER_DEPTH and kind != CLOSE:
                    self._check_gap(last, place)
                    start = place
                elif depth == MEMBER_DEPTH:
                    last = place + 1
                    self._check_member(start, last)
                    first_end = last if self._count == 1 else first_end
            self._mark_commas()
        if begin < 0:
            return None
        return self._framed(begin, first_end, end)

    def _pieces(self) -> Iterator[Iterable[tuple[int, int, int]]]:
        """Places and kinds of the outer brackets, and the depth of what they enclose: 1 is the document."""
        depth, base = 0, 0
        is_text = is_escaped = False
        while piece := os.pread(self._file, PIECE_BYTES, base):
            size = len(piece)
            if is_escaped:
                piece = b" " + piece[1:]
            if b"\\" in piece:
                piece = ESCAPED.sub(b"  ", piece)
            is_escaped = piece.endswith(b"\\")
            kinds = np.frombuffer(piece.translate(KINDS), dtype=np.uint8)
            places = np.flatnonzero(kinds)
            kinds = kinds[places]
            quotes = kinds == QUOTE
            in_text = (np.cumsum(quotes) + is_text) % 2 == 1
            is_text = bool(in_text[-1]) if len(in_text) else is_text
            outside = ~(quotes | in_text)
            places, kinds = places[outside], kinds[outside]
            depths = depth + np.cumsum(STEPS[kinds])
            depth = int(depths[-1]) if len(depths) else depth
            depths = depths + (kinds == CLOSE)
            outer = depths <= MEMBER_DEPTH
            columns = (places[outer] + base, kinds[outer], depths[outer])
            yield zip(*(column.tolist() for column in columns), strict=True)
            base += size
        if depth or is_text:
            raise self._refused("is not valid JSON: it ends too early. Is the file complete?", "VECTOR_UNREADABLE")

    def _is_named_features(self, place: int) -> bool:
        first = max(0, place - MOST_GAP_BYTES)
        return FEATURES.search(os.pread(self._file, place - first, first)) is not None

    def _check_gap(self, first: int, end: int, *, is_end: bool = False) -> None:
        """Between two members there is a comma, and nothing else."""
        gap = os.pread(self._file, min(end - first, MOST_GAP_BYTES), first)
        text = gap.strip()
        if end - first <= MOST_GAP_BYTES and text == (b"" if is_end or not self._count else b","):
            if text:
                self._commas.append(first + gap.index(b","))
            return
        words = text.strip(b", \r\n\t").partition(b",")[0]
        if not words:
            raise self._refused(
                f"is not valid JSON: {'a comma too many' if text else 'a comma is missing'} after feature "
                f"{self._count:,} (line {self._line_of(first):,}).",
                "VECTOR_UNREADABLE",
            )
        raise not_a_feature(self._name, self._count + 1, words.decode("utf-8", "replace"))

    def _check_member(self, start: int, end: int) -> None:
        self._count += 1
        if end - start > MOST_RECORD_MB * MEGABYTE:
            raise self._refused(
                f"has more than {MOST_RECORD_MB} MB in feature {self._count:,}: split its geometry.", "FILE_TOO_LARGE"
            )
        begin = os.pread(self._file, min(end - start, MOST_TYPE_BYTES), start)
        is_first = self._count == 1 and end - start <= MOST_BYTES
        if FEATURE.match(begin) and not self._parses_all and not is_first:
            feature_id = ID.match(begin)
            # Of other values only that they are there.
            self._ids.add(None if feature_id is None else int(feature_id[1]) if feature_id[1] else "")
            return
        text = os.pread(self._file, end - start, start)
        if not text.startswith(b"{"):
            raise not_a_feature(self._name, self._count, "an array")
        try:
            member = parse_json(text)
        except (ValueError, RecursionError):
            # Lines are counted for a message only: that reads the file up to here.
            member = load_json(text, self._name, self._line_of(start) - 1)
        kind = member.get("type") if isinstance(member, dict) else None
        if str(kind).lower() != "feature":
            raise not_a_feature(self._name, self._count, kind)
        self._ids.add(member.get(FEATURE_ID), member.get("properties"))
        # Programs write the parts of all features in one order.
        self._parses_all |= is_first and member.get(FEATURE_ID) is not None and ID.match(begin) is None

    def _mark_commas(self) -> None:
        if not self._commas:
            return
        first, last = self._commas[0], self._commas[-1] + 1
        data = np.frombuffer(bytearray(os.pread(self._file, last - first, first)), dtype=np.uint8)
        data[np.array(self._commas) - first] = SEPARATOR[0]
        os.pwrite(self._file, data.tobytes(), first)
        self._commas.clear()

    def _framed(self, begin: int, first_end: int, end: int) -> Sequence:
        if not self._count:
            raise no_features(self._name)
        size = os.fstat(self._file).st_size
        if begin + size - end > MOST_BYTES:
            raise self._refused(
                f"has more than {MOST_BYTES // MEGABYTE} MB beside its features: leave that out.", "FILE_TOO_LARGE"
            )
        head, tail = os.pread(self._file, begin + 1, 0), os.pread(self._file, size - end, end)
        self._check_frame(head, tail, end)
        first = SAMPLE if first_end - begin > MOST_BYTES else os.pread(self._file, first_end - begin - 1, begin + 1)
        os.pwrite(self._file, SEPARATOR + head[1:].translate(BLANK), 0)
        os.pwrite(self._file, tail.translate(BLANK), end)
        return Sequence(self._count, head + first + tail, self._ids)

    def _check_frame(self, head: bytes, tail: bytes, end: int) -> None:
        try:
            document = json.loads(head + tail)
        except UnicodeDecodeError as error:
            raise not_utf8(error, self._name) from None
        except json.JSONDecodeError as error:
            is_tail = error.pos > len(head.decode(errors="replace"))
            lines = self._line_of(end) - 1 - head.count(b"\n") if is_tail else 0
            raise invalid_json(error, self._name, lines_before=lines) from None
        check_kind(document, self._name)

    def _line_of(self, place: int) -> int:
        line = 1
        for start in range(0, place, PIECE_BYTES):
            line += os.pread(self._file, min(PIECE_BYTES, place - start), start).count(b"\n")
        return line

    def _refused(self, words: str, code: str) -> VectorRefused:
        return VectorRefused(f"{self._name} {words}", code=code)


def require_whole_features(path: Path, name: str) -> None:
    """After GDAL has read fewer features than there are: raises VectorRefused for the first one that is not valid."""
    line, rest = 1, b""
    with path.open("rb") as file:
        file.read(1)
        while piece := file.read(PIECE_BYTES):
            *texts, rest = (rest + piece).split(SEPARATOR)
            for text in texts:
                load_json(text, name, line - 1)
                line += text.count(b"\n")
    load_json(rest, name, line - 1)
