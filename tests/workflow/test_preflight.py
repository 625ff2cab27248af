"""Checks of a workflow against inputs: what is wrong without looking, and which files have to be looked at."""

from __future__ import annotations

from typing import Any

import pytest

from rmhdag.workflow import load
from rmhdag.workflow.preflight import BlobQuestion, ChecksFailed, blob_fault, examine
from rmhdag.workflow.problems import MAX_PROBLEMS

HEAD = """
workflow_id: w
inputs:
  container: {type: string, default: uploads}
  file: {type: string}
  files: {type: array}
  zone: {type: string, default: bronze}
  crs: {type: string}
  strict: {type: boolean, default: true}
checks:
"""
TAIL = "\nnodes: {one: {handler: echo, queue: light}}\n"
DEFAULTS = {"container": "uploads", "zone": "bronze", "strict": True}


def examined(checks: str, **params: Any) -> tuple[list[tuple[str, str, str]], list[BlobQuestion]]:
    found = examine(load(HEAD + checks + TAIL).definition, DEFAULTS | params)
    return [tuple(fault) for fault in found.faults], found.questions  # type: ignore[misc]


BLOB = """
  - {type: blob_exists, container: "{{ inputs.container }}", path: "in/{{ inputs.file }}", zone: "{{ inputs.zone }}",
     max_size_mb: 2, too_large: cut it}
"""


def test_a_file_is_asked_for() -> None:
    faults, questions = examined(BLOB, file="a.tif", zone="silver")
    assert (faults, questions) == (
        [],
        [BlobQuestion("silver", "uploads", "in/a.tif", "/file", 2, "cut it")],
    )


@pytest.mark.parametrize("params", [{}, {"file": None}])
def test_an_input_without_a_value_is_not_checked(params: dict[str, Any]) -> None:
    checks = '  - {type: extension, path: "{{ inputs.file }}", allowed: [.tif]}\n'
    checks += '  - {type: crs, value: "{{ inputs.crs }}"}\n'
    checks += '  - {type: blob_exists, container: c, path: "{{ inputs.file }}"}'
    assert examined(checks, **params) == ([], [])


def test_an_unknown_zone_is_a_fault_and_no_question() -> None:
    (fault,), questions = examined(BLOB, file="a.tif", zone="gould")
    assert (fault[0], questions) == ("INVALID_PARAMETER", [])
    assert "there is no zone 'gould'" in fault[2]


@pytest.mark.parametrize(
    ("crs", "is_right"),
    [
        ("EPSG:4326", True),
        ("EPSG:32633", True),
        ("epsg:4326", False),
        ("4326", False),
        ("EPSG:", False),
        ("EPSG:0", False),
        ("EPSG:4326 ", False),
        ("WGS84", False),
    ],
)
def test_the_form_of_a_crs(crs: str, is_right: bool) -> None:
    faults, _ = examined('  - {type: crs, value: "{{ inputs.crs }}"}', crs=crs)
    assert [fault[:2] for fault in faults] == ([] if is_right else [("INVALID_PARAMETER", "/crs")])


@pytest.mark.parametrize(
    ("file", "is_right"), [("a.tif", True), ("a.TIFF", True), ("a.tif.zip", False), ("tif", False), ("a", False)]
)
def test_extensions_in_any_case(file: str, is_right: bool) -> None:
    faults, _ = examined('  - {type: extension, path: "{{ inputs.file }}", allowed: [.tif, .tiff]}', file=file)
    assert [fault[:2] for fault in faults] == ([] if is_right else [("INVALID_FORMAT", "/file")])


LIST = '  - {type: blob_list, container: c, paths: "{{ inputs.files }}", max_count: 2, max_size_mb: 1}'


def test_a_list_of_files_has_a_place_each() -> None:
    faults, questions = examined(LIST, files=["a", "b"])
    assert faults == []
    assert [(question.path, question.pointer, question.max_size_mb) for question in questions] == [
        ("a", "/files/0", 1),
        ("b", "/files/1", 1),
    ]


@pytest.mark.parametrize("files", [["a", "b", "c"], [], ["a", 1], "a"])
def test_a_list_that_is_none_or_too_long(files: Any) -> None:
    faults, questions = examined(LIST, files=files)
    assert ([fault[:2] for fault in faults], questions) == ([("INVALID_PARAMETER", "/files")], [])


def test_a_check_may_have_a_condition() -> None:
    checks = '  - {type: container_not_empty, when: not inputs.strict, container: c, prefix: "{{ inputs.file }}"}'
    assert examined(checks, file="x/") == ([], [])
    assert examined(checks, file="x/", strict=False)[1] == [BlobQuestion("bronze", "c", "x/", "", is_prefix=True)]


def test_all_faults_at_once() -> None:
    checks = '  - {type: extension, path: "{{ inputs.files }}", allowed: [.tif]}\n'
    checks += '  - {type: crs, value: "{{ inputs.crs }}"}'
    faults, _ = examined(checks, files=["a.tif", "b.shp", "c"], crs="x")
    assert [fault[1] for fault in faults] == ["/files/1", "/files/2", "/crs"]


def test_what_an_answer_means() -> None:
    question = BlobQuestion("bronze", "uploads", "a.tif", "/file", 2, "cut it")
    assert blob_fault(question, 2_000_000) is None
    too_large = blob_fault(question, 2_000_001)
    assert too_large is not None
    assert too_large.code == "FILE_TOO_LARGE"
    assert too_large.sentence == "'a.tif' has 2.0 MB, and at most 2 MB are accepted: cut it"
    missing = blob_fault(question, None)
    assert missing is not None
    assert (missing.code, "there is no file 'a.tif'" in missing.sentence) == ("FILE_NOT_FOUND", True)
    refusal = ChecksFailed("w", [too_large, missing])
    assert [place.pointer for place in refusal.places] == ["/input_params/file"] * 2
    assert [place.code for place in refusal.places] == ["FILE_TOO_LARGE", "FILE_NOT_FOUND"]


def test_the_work_of_all_checks_together_is_bounded() -> None:
    """Each template may take what one of a job may; all of them together no more than that."""
    slow = '  - {type: crs, value: "{{ inputs.files | join | upper | lower | upper | lower | length }}"}\n'
    faults, questions = examined(slow * 50, files=["x" * 1_000] * 1_000)
    assert len(faults) < 50
    assert "the checks take too long with these parameters" in [fault[2] for fault in faults]
    assert questions == []


def test_no_more_faults_than_anyone_reads() -> None:
    faults, _ = examined('  - {type: extension, path: "{{ inputs.files }}", allowed: [.tif]}', files=["x"] * 100_000)
    assert len(faults) == MAX_PROBLEMS
