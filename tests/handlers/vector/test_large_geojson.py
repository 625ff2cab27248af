"""Collections that are too large to be parsed: their features are found by brackets, and none is left out."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyogrio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmhdag.handlers.vector import geojson_members
from rmhdag.handlers.vector.geojson import MOST_BYTES, SEPARATOR
from rmhdag.handlers.vector.geojson_members import to_sequence
from rmhdag.handlers.vector.refusals import VectorRefused
from rmhdag.testing.bench import HandlerBench
from tests.handlers.vector.files import prepare, rows_of

PADDING = "x" * (MOST_BYTES // 16)
POINT = {"type": "Point", "coordinates": [7.5, 50.25]}


def feature(number: int, **properties: Any) -> str:
    return json.dumps({"type": "Feature", "properties": {"n": number, **properties}, "geometry": POINT})


def large(*members: str, head: str = '{"type": "FeatureCollection",\n"features": [\n', tail: str = "\n]}\n") -> str:
    """With so much text in the first features that the file is not parsed; `members` come after them."""
    return head + ",\n".join([*(feature(number, padding=PADDING) for number in range(1, 18)), *members]) + tail


REFUSED = {
    "an object of another kind": (large('{"n": 2}', feature(3)), "VECTOR_FORMAT_MISMATCH", "number 18 of its features"),
    "a geometry": (large(json.dumps(POINT)), "VECTOR_FORMAT_MISMATCH", "number 18 of its features has the type 'Point"),
    "a number": (large("5", feature(3)), "VECTOR_FORMAT_MISMATCH", "number 18 of its features has the type '5'"),
    "null at the end": (large(feature(18), "null"), "VECTOR_FORMAT_MISMATCH", "number 19 of its features"),
    "an array": (large(f"[{feature(3)}]"), "VECTOR_FORMAT_MISMATCH", "number 18 of its features has the type 'an arr"),
    "a type that comes last": (large('{"a": {"type": "Feature"}, "type": "x"}'), "VECTOR_FORMAT_MISMATCH", "'x'"),
    "a value that is no JSON": (
        large('{"type": "Feature",\n"properties": {"n": tru}, "geometry": null}'),
        "VECTOR_UNREADABLE", "Expecting value in line 21, column 21",
    ),
    "a comma too many": (large(feature(18), tail=",]}"), "VECTOR_UNREADABLE", "a comma too many after feature 18"),
    "a comma that is missing": (large(feature(18) + "\n" + feature(19)), "VECTOR_UNREADABLE", "feature 18 (line 20)"),
    "an early end": (large(tail=""), "VECTOR_UNREADABLE", "ends too early"),
    "something behind it": (large(tail="]}\n{}"), "VECTOR_UNREADABLE", "Extra data in line 20, column 1"),
    "another document": (large(head='{"type": "Topology", "features": ['), "VECTOR_FORMAT_MISMATCH", "Topology"),
    "features twice": (large(tail='], "features": []}'), "VECTOR_FORMAT_MISMATCH", "two members named features"),
    "no features": (
        json.dumps({"type": "FeatureCollection", "features": []}) + " " * MOST_BYTES,
        "VECTOR_NO_FEATURES", "without features",
    ),
    "much beside the features": (large(tail=f'], "notes": "{"x" * MOST_BYTES}"}}'), "FILE_TOO_LARGE", "beside its"),
    "a layer that it does not have": (large(), "INVALID_PARAMETER", "has no layer"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_no_member_is_left_out(bench: HandlerBench, case: tuple[str, str, str]) -> None:
    content, code, words = case
    params = {"layer_name": "roads"} if "no layer" in words else {}
    with pytest.raises(VectorRefused) as refusal:
        prepare(bench, content, "a.geojson", **params)
    error = refusal.value.error
    assert error is not None
    assert (error.code, words in str(refusal.value)) == (code, True), str(refusal.value)


def test_features_are_read_as_those_of_a_small_file(bench: HandlerBench) -> None:
    """Also with brackets and quotes in texts, nested features, the system at the end, and types that come last."""
    moment = "2020-01-01T00:00:00+02:00"
    members = [
        feature(18, text='}],"features":[{', path="C:\\", quote='\\"'),
        json.dumps(json.loads(feature(19, parts={"features": [{"type": "Feature"}]}, list=[1, 2])), indent=1),
        json.dumps({"geometry": POINT, "id": 77, "properties": {"n": math.nan, "when": moment}, "type": "Feature"}),
        '{"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 2, 3]}, "properties": null}',
    ]
    system = json.dumps({"type": "name", "properties": {"name": "EPSG:3857"}})
    frame = {
        "head": '{"notes": {"features": [1, [2]]}, "name": "sites", "type": "FeatureCollection", "features" : [ ',
        "tail": f'\n] , "crs": {system}}}',
    }
    large_run = prepare(bench, large(*members, **frame), "a.geojson", layer_name="sites")
    small_run = prepare(bench, large(*members, **frame).replace(PADDING, "short"), "b.geojson", table_name="small")
    rows, expected = rows_of(bench, large_run), rows_of(bench, small_run)
    assert len(rows) == len(expected) == 21
    # As text: one number is NaN.
    assert str([{**row, "padding": None} for row in rows]) == str([{**row, "padding": None} for row in expected])
    assert rows[0]["geom"].bounds[2] < 0.001, "metres became degrees"
    for name in ("columns", "crs_input", "original_row_count", "bbox", "warnings"):
        assert large_run.output[name] == small_run.output[name], name


def test_numbers_of_features_are_kept_if_all_have_one(bench: HandlerBench) -> None:
    members = [
        f'{{"type": "Feature", "id": {n}, "properties": {{"n": 1}}, "geometry": {json.dumps(POINT)}}}' for n in (3, 9)
    ]
    document = f'{{"type": "FeatureCollection", "notes": "{PADDING}", "features": [{", ".join(members)}]}}'
    path = bench.folder / "ids.geojson"
    path.write_text(document)
    sequence = to_sequence(path, path.name)
    assert sequence is not None
    assert sequence.ids.are_numbers
    late = document.replace('"id": 3, ', "").replace('"id": 9, ', "").replace('"properties": {"n": 1}, ', "")
    for ids in ((4, 8), (8, 4)):
        text = late.replace('"geometry"', "@")
        for number in ids:
            text = text.replace("@", f'"properties": {{"id": 1}}, "id": {number}, "geometry"', 1)
        path.write_text(text)
        assert (sequence := to_sequence(path, path.name)) is not None
        assert (sequence.ids.are_numbers, sequence.ids.count) == (ids == (4, 8), 2)
    for other, count in (("", 1), ('"id": 1, ', 2), ('"id": "a", ', 2), ('"id": null, ', 1)):
        path.write_text(document.replace('"id": 9, ', other))
        assert (sequence := to_sequence(path, path.name)) is not None
        assert (sequence.ids.are_numbers, sequence.ids.count, sequence.ids.is_lost(["n"])) == (False, count, True)


def test_members_that_begin_otherwise_take_no_longer_each(tmp_path: Path) -> None:
    """Reading the file up to each of them would take hours."""
    path = tmp_path / "a.geojson"
    member = f'{{"id": 5, "type": "Feature", "properties": {{"n": NaN}}, "geometry": {json.dumps(POINT)}}}'
    path.write_text(large(*[member] * 50_000))
    sequence = to_sequence(path, path.name)
    assert sequence is not None
    assert sequence.feature_count == 50_017


def test_the_original_stays_as_it_was(bench: HandlerBench) -> None:
    content = large(feature(18))
    run = prepare(bench, content, "a.geojson")
    assert bench.path(run.output["source"]).read_text() == content


NAMES = st.text(alphabet='a"\\{[', max_size=4)
PLAIN = st.none() | st.integers() | st.text(alphabet='{}[]",:\\\x7f\u00e9 \nfeatures', max_size=12)
NESTED = PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(NAMES, PLAIN, max_size=3)
JSON = NESTED | st.lists(NESTED, max_size=3) | st.dictionaries(NAMES, NESTED, max_size=3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    members=st.lists(st.fixed_dictionaries({"type": st.just("Feature"), "properties": JSON}), min_size=1, max_size=5),
    others=st.dictionaries(st.text(alphabet="abc", min_size=1, max_size=3), JSON, max_size=2),
    indent=st.sampled_from([None, 0, 3]),
    is_ascii=st.booleans(),
    size=st.integers(1, 40),
)
def test_every_feature_is_found_wherever_pieces_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    members: list[dict[str, Any]],
    others: dict[str, Any],
    indent: int | None,
    is_ascii: bool,
    size: int,
) -> None:
    monkeypatch.setattr(geojson_members, "PIECE_BYTES", size)
    document = {**others, "type": "FeatureCollection", "features": members, "end": others}
    path = tmp_path / "a.geojson"
    data = json.dumps(document, indent=indent, ensure_ascii=is_ascii).encode()
    path.write_bytes(data)
    sequence = to_sequence(path, path.name)
    assert sequence is not None
    assert sequence.feature_count == len(members)
    after = path.read_bytes()
    assert [json.loads(text) for text in after.split(SEPARATOR)[1:]] == members
    assert (len(after), after.count(b"\n")) == (len(data), data.count(b"\n"))
    sample = json.loads(sequence.sample)
    assert sample == {**document, "features": members[:1]}


def test_gdal_itself_leaves_members_out(tmp_path: Path) -> None:
    """Why all of this is done: when it fails, GDAL has learned to say so."""
    path = tmp_path / "a.geojson"
    path.write_text(large('{"n": 2}', "5", feature(18)))
    assert pyogrio.read_info(path)["features"] == 18
