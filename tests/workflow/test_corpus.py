"""Every file of the corpus: valid ones load and mean the same as JSON, invalid ones have exactly their problems."""

import json
from typing import Any

import jsonschema
import pytest

from rmhdag.engine.plan import Plan
from rmhdag.workflow import check, definition_hash, definition_json, json_schema, load, shipped_handlers
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.yaml_reader import read_yaml
from tests.workflow.corpus import Case, cases

VALID = list(cases("valid"))
INVALID = list(cases("invalid"))


def names(found: list[Case]) -> list[str]:
    return [case.path.stem for case in found]


def test_the_corpus_is_large_enough() -> None:
    assert len(VALID) >= 25
    assert len(INVALID) >= 60


@pytest.mark.parametrize("case", VALID, ids=names(VALID))
def test_valid_file_loads(case: Case) -> None:
    handlers = None if case.any_handlers else shipped_handlers()
    loaded = load(
        case.path.read_bytes(),
        file=case.path.name,
        handlers=handlers,
        env_names=case.env_names,
        fallback_queue=case.fallback_queue,
    )
    stored = json.loads(json.dumps(definition_json(loaded.definition)))
    restored = WorkflowDefinition.model_validate(stored)
    assert restored == loaded.definition
    assert definition_hash(restored) == loaded.hash


@pytest.mark.parametrize("case", VALID, ids=names(VALID))
def test_valid_file_means_the_same_as_json(case: Case) -> None:
    text = case.path.read_text("utf-8")
    from_yaml = load(text, file=case.path.name, env_names=case.env_names, fallback_queue=case.fallback_queue)
    from_json = load(read_yaml(text, "").data, env_names=case.env_names, fallback_queue=case.fallback_queue)
    assert from_json.hash == from_yaml.hash


WITH_RESULT = [case for case in VALID if case.result is not None]


@pytest.mark.parametrize("case", WITH_RESULT, ids=names(WITH_RESULT))
def test_the_result_is_what_the_nodes_at_the_end_produce(case: Case) -> None:
    loaded = load(case.path.read_bytes(), file=case.path.name, handlers=shipped_handlers())
    assert Plan(loaded.definition).final_nodes == case.result


@pytest.mark.parametrize("case", INVALID, ids=names(INVALID))
def test_invalid_file_has_exactly_its_problems(case: Case) -> None:
    loaded, problems = check(
        case.path.read_bytes(),
        file=case.path.name,
        handlers=case.handlers,
        queues=case.queues,
        env_names=case.env_names,
        fallback_queue=case.fallback_queue,
    )
    assert loaded is None
    assert case.expected
    assert [(found.line, found.column, found.code, found.message) for found in problems] == case.expected
    for problem in problems:
        assert len(problem.remedy) > 3
        assert str(problem).startswith(f"{case.path.name}:{problem.line}:{problem.column}: {problem.message}. ")
    advised = {(found.line, found.column): found.remedy for found in problems}
    assert {place: advised.get(place) for place in case.remedies} == case.remedies


def test_every_problem_points_into_the_file() -> None:
    for case in INVALID:
        lines = case.path.read_text("utf-8").split("\n")
        for line, column, _, _ in case.expected:
            assert 1 <= line <= len(lines)
            assert 1 <= column <= len(lines[line - 1]) + 1, case.path.name


def test_problems_of_json_have_pointers() -> None:
    for case in INVALID:
        reading = read_yaml(case.path.read_bytes(), "")
        if reading.problems or not isinstance(reading.data, dict):
            continue
        _, problems = check(
            reading.data,
            file="body",
            handlers=case.handlers,
            queues=case.queues,
            env_names=case.env_names,
            fallback_queue=case.fallback_queue,
        )
        assert sorted(problem.code for problem in problems) == sorted(code for _, _, code, _ in case.expected)
        for problem in problems:
            assert str(problem).startswith(f"body#{problem.pointer}: ")
            assert (problem.line, problem.column) == (0, 0)


class TestSchema:
    """The JSON Schema agrees with the checks, as far as a schema can."""

    schema: dict[str, Any] = json_schema()
    validator = jsonschema.Draft202012Validator(schema)

    def test_is_a_schema(self) -> None:
        jsonschema.Draft202012Validator.check_schema(self.schema)
        assert self.schema["$schema"].endswith("2020-12/schema")
        assert self.schema["properties"]["workflow_id"]["description"]

    def test_has_no_null(self) -> None:
        assert '"null"' not in json.dumps(self.schema)

    @pytest.mark.parametrize("case", VALID, ids=names(VALID))
    def test_valid_file_passes(self, case: Case) -> None:
        self.validator.validate(read_yaml(case.path.read_bytes(), "").data)

    @pytest.mark.parametrize("case", INVALID, ids=names(INVALID))
    def test_invalid_file_gets_its_verdict(self, case: Case) -> None:
        reading = read_yaml(case.path.read_bytes(), "")
        if reading.problems:
            assert case.schema == "unread"
        else:
            assert self.validator.is_valid(reading.data) == (case.schema == "passes")

    def test_structural_problems_fail(self) -> None:
        structural = {"missing-field", "unknown-field", "wrong-type", "unknown-type", "empty-field", "unknown-value"}
        beyond_a_schema = {"input_limits_contradict", "handler_parameters", "quoted_values"}
        for case in INVALID:
            if case.schema == "passes" and case.path.stem not in beyond_a_schema:
                assert not {code for _, _, code, _ in case.expected} & structural, case.path.name
