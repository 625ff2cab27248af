"""From the written form to the definition: what is folded, what is resolved, what the hash covers."""

from pathlib import Path
from typing import Any

import pytest

from rmhdag.models.states import NodeType
from rmhdag.workflow import (
    HandlerEntry,
    InvalidWorkflow,
    KnownHandlers,
    LoadedWorkflow,
    check,
    load,
    load_file,
    load_folder,
    read_handlers,
    shipped_handlers,
    workflow_files,
)
from rmhdag.workflow.definition import (
    Branch,
    ConditionalNode,
    FanInNode,
    FanOutNode,
    RetryRule,
    TaskNode,
    TaskSpec,
    WorkflowNode,
)
from tests.workflow.corpus import FOLDER

SHIPPED = Path(__file__).parents[2] / "src" / "rmhdag" / "workflows"


def workflow(nodes: dict[str, Any], **head: Any) -> LoadedWorkflow:
    return load({"workflow_id": "w", "defaults": {"queue": "q"}, **head, "nodes": nodes})


def task(nodes: dict[str, Any], **head: Any) -> TaskSpec:
    node = workflow(nodes, **head).definition.nodes["a"]
    assert isinstance(node, TaskNode | FanOutNode)
    return node.task


def codes(source: Any, **options: Any) -> list[str]:
    return [problem.code for problem in check(source, **options)[1]]


def test_type_may_be_left_out_where_handler_is_given() -> None:
    assert workflow({"a": {"handler": "echo"}}).definition.nodes["a"].type is NodeType.TASK


def test_name_defaults_to_the_id_and_version_to_one() -> None:
    definition = workflow({"a": {"handler": "echo"}}).definition
    assert (definition.name, definition.version) == ("w", 1)
    assert workflow({"a": {"handler": "echo"}}, name="Title", version=3).definition.name == "Title"


def test_next_is_one_or_a_list_and_an_undeclared_end_is_a_flag() -> None:
    nodes = workflow(
        {
            "a": {"handler": "echo", "next": "b"},
            "b": {"handler": "echo", "next": ["c", "END"]},
            "c": {"handler": "echo", "next": "END"},
        }
    ).definition.nodes
    assert [(node.next, node.ends) for node in nodes.values()] == [(("b",), False), (("c",), True), ((), True)]


def test_a_declared_end_is_a_node() -> None:
    nodes = workflow({"a": {"handler": "echo", "next": "END"}, "END": {"type": "end"}}).definition.nodes
    assert nodes["a"].next == ("END",)
    assert not nodes["a"].ends


def test_retry_arithmetic() -> None:
    assert task({"a": {"handler": "echo"}}).retry == RetryRule(
        max_attempts=4, backoff="exponential", initial_delay_seconds=5, max_delay_seconds=300, jitter=0.1
    )
    assert task({"a": {"handler": "echo", "retries": 0}}).retry.max_attempts == 1
    assert task({"a": {"handler": "echo", "retries": 3}}).retry.max_attempts == 4
    assert task({"a": {"handler": "echo", "retry": {"max_attempts": 3}}}).retry.max_attempts == 3


def test_defaults_apply_where_a_node_says_nothing() -> None:
    head = {"defaults": {"queue": "q", "timeout_seconds": 7, "retries": 1}}
    silent = task({"a": {"handler": "echo"}}, **head)
    assert (silent.queue, silent.timeout_seconds, silent.retry.max_attempts) == ("q", 7, 2)
    spoken = task({"a": {"handler": "echo", "queue": "own", "timeout_seconds": 9, "retries": 5}}, **head)
    assert (spoken.queue, spoken.timeout_seconds, spoken.retry.max_attempts) == ("own", 9, 6)
    assert task({"a": {"handler": "echo"}}).timeout_seconds == 3600


def test_queue_is_resolved_in_the_order_of_the_contract() -> None:
    handlers = KnownHandlers([HandlerEntry(name="own", queue="of-handler"), HandlerEntry(name="plain")])

    def queue(nodes: dict[str, Any], name: str = "a", **defaults: Any) -> str | None:
        loaded = load(
            {"workflow_id": "w", **({"defaults": defaults} if defaults else {}), "nodes": nodes}, handlers=handlers
        )
        node = loaded.definition.nodes[name]
        assert isinstance(node, TaskNode | FanOutNode)
        return node.task.queue

    fan_out = {"type": "fan_out", "source": [1], "queue": "of-node"}
    assert queue({"a": {**fan_out, "task": {"handler": "own", "queue": "of-task"}}}, queue="d") == "of-task"
    assert queue({"a": {**fan_out, "task": {"handler": "own"}}}, queue="d") == "of-node"
    assert queue({"a": {**fan_out, "child_node": "c"}, "c": {"handler": "own"}}, queue="d") == "of-node"
    assert queue({"a": {**fan_out, "child_node": "c"}, "c": {"handler": "own", "queue": "of-child"}}) == "of-child"
    assert queue({"a": {"handler": "own", "queue": "of-node"}}, queue="d") == "of-node"
    assert queue({"a": {"handler": "own"}}, queue="d") is None
    assert queue({"a": {"handler": "plain"}}, queue="d") == "d"
    assert codes({"workflow_id": "w", "nodes": {"a": {"handler": "plain"}}}, handlers=handlers) == ["missing-queue"]


def test_both_conditional_forms_become_branches() -> None:
    inputs = {"x": {"type": "integer"}}
    by_field = workflow(
        {
            "c": {
                "type": "conditional",
                "condition_field": "inputs.x",
                "branches": [{"default": True, "next": "END"}, {"condition": "> 5", "next": ["a", "b"]}],
            },
            "a": {"handler": "echo"},
            "b": {"handler": "echo"},
        },
        inputs=inputs,
    ).definition.nodes["c"]
    assert isinstance(by_field, ConditionalNode)
    assert by_field.subject == "inputs.x"
    assert by_field.branches == (Branch(condition="> 5", next=("a", "b")), Branch(default=True, next=()))
    by_condition = workflow(
        {
            "c": {"type": "conditional", "condition": "inputs.x > 5", "on_true": "a", "on_false": "END"},
            "a": {"handler": "echo"},
        },
        inputs=inputs,
    ).definition.nodes["c"]
    assert isinstance(by_condition, ConditionalNode)
    assert by_condition.subject is None
    assert by_condition.branches == (Branch(condition="inputs.x > 5", next=("a",)), Branch(default=True, next=()))


def test_both_fan_out_forms_end_up_with_a_task() -> None:
    nodes = workflow(
        {
            "inline": {
                "type": "fan_out",
                "source": [1],
                "task": {"handler": "echo", "params": {"x": "{{ item }}"}},
                "next": "in1",
            },
            "in1": {"type": "fan_in"},
            "split": {"type": "fan_out", "source": [1], "child_node": "child", "max_parallel": 2},
            "child": {"handler": "echo", "params": {"x": "{{ fan_out.item }}"}, "retries": 1},
            "in2": {"type": "fan_in", "source_node": "child", "aggregation": "sum", "tolerate": {"count": 1}},
        }
    ).definition.nodes
    inline, split, child = nodes["inline"], nodes["split"], nodes["child"]
    assert isinstance(inline, FanOutNode)
    assert isinstance(split, FanOutNode)
    assert isinstance(child, TaskNode)
    assert inline.task.params == {"x": "{{ item }}"}
    assert split.task == child.task
    assert split.child_node == "child"
    assert child.template_of == "split"
    first, second = nodes["in1"], nodes["in2"]
    assert isinstance(first, FanInNode)
    assert isinstance(second, FanInNode)
    assert (first.source_node, second.source_node) == ("inline", "split")


def test_workflow_nodes_take_either_word_for_the_version() -> None:
    for field in ("version", "workflow_version"):
        node = workflow({"a": {"type": "workflow", "workflow": "other", field: 4}}).definition.nodes["a"]
        assert isinstance(node, WorkflowNode)
        assert node.workflow_version == 4
        assert node.retry.max_attempts == 1


TWO_NODES: dict[str, Any] = {"a": {"handler": "echo", "next": "b"}, "b": {"handler": "echo"}}


class TestHash:
    def test_the_same_meaning_has_the_same_hash(self) -> None:
        spelled_out = workflow(
            {
                "b": {"type": "task", "handler": "echo", "queue": "q", "timeout_seconds": 3600, "retries": 3},
                "a": {"type": "task", "handler": "echo", "queue": "q", "next": ["b"], "params": {}},
            },
            version=1,
            name="w",
            inputs={},
        )
        assert spelled_out.hash == workflow(TWO_NODES).hash
        assert len(spelled_out.hash) == 64

    @pytest.mark.parametrize(
        "change",
        [
            {"version": 2},
            {"name": "other"},
            {"description": "text"},
            {"outputs": {"x": 1}},
            {"outputs": {"x": None}},
            {"inputs": {"x": {"type": "string"}}},
            {"defaults": {"queue": "other"}},
            {"nodes": {**TWO_NODES, "c": {"handler": "echo"}}},
            {"nodes": {"a": {"handler": "echo"}, "b": {"handler": "echo"}}},
            {"nodes": {**TWO_NODES, "b": {"handler": "echo", "params": {"x": None}}}},
            {"nodes": {**TWO_NODES, "b": {"handler": "sleep"}}},
            {"nodes": {**TWO_NODES, "b": {"type": "end"}}},
            {"nodes": {**TWO_NODES, "b": {"handler": "echo", "next": "END"}}},
        ],
    )
    def test_another_meaning_has_another_hash(self, change: dict[str, Any]) -> None:
        base = {"workflow_id": "w", "defaults": {"queue": "q"}, "nodes": TWO_NODES}
        assert load({**base, **change}).hash != load(base).hash

    def test_null_and_absent_parameters_differ(self) -> None:
        with_null = workflow({"a": {"handler": "echo", "params": {"x": None}}})
        assert with_null.hash != workflow({"a": {"handler": "echo", "params": {}}}).hash


def test_json_problems_have_pointers() -> None:
    _, problems = check({"workflow_id": "w", "nodes": {"a/b": {"handler": "echo", "queue": 5}}}, file="body")
    assert [str(problem).split(": ")[0] for problem in problems] == ["body#/nodes/a~1b/queue", "body#/nodes/a~1b"]


@pytest.mark.parametrize(
    "data",
    [
        {"workflow_id": "w\0", "nodes": {}},
        {"workflow_id": "w", "nodes": {"a": {"handler": "echo", "params": {"x": float("nan")}}}},
        {"workflow_id": "w", "nodes": {1: {}}},
        {"workflow_id": "w", "nodes": {"a": {"handler": "echo", "params": {"x": object()}}}},
        {"workflow_id": "w", "nodes": {"a": {"handler": "echo", "params": {"x": "\ud800"}}}},
    ],
)
def test_what_is_not_json_is_refused(data: dict[str, Any]) -> None:
    assert codes(data) == ["not-json"]


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    text = (
        "workflow_id: W\nnodes:\n  a:\n    handler: echo\n    queue: q\n    retires: 1\n    next: z\n"
        "    params: {x: '{{ inputs.q }}'}\n"
    )
    with pytest.raises(InvalidWorkflow) as caught:
        load(text, file="flow.yaml")
    assert [problem.code for problem in caught.value.problems] == [
        "bad-name",
        "unknown-field",
        "unknown-target",
        "unknown-input",
    ]
    places = [(problem.line, problem.column) for problem in caught.value.problems]
    assert places == sorted(places)
    assert str(caught.value).splitlines()[1] == (
        "flow.yaml:6:5: a task node has no field `retires`. Did you mean `retries`?"
    )


def test_many_problems_are_cut_off() -> None:
    nodes = {f"n{index}": {"handler": "echo", "nope": 1} for index in range(500)}
    problems = check({"workflow_id": "w", "defaults": {"queue": "q"}, "nodes": nodes})[1]
    assert len(problems) == 200
    assert problems[-1].code == "too-many-problems"


class TestFolders:
    def test_shipped_workflows_load(self) -> None:
        loaded = load_folder(SHIPPED, handlers=shipped_handlers(), queues={"light-tasks", "heavy-tasks"})
        assert {"hello_world.yaml", "echo_test.yaml", "fan_out_test.yaml", "raster_processing.yaml"} <= loaded.keys()
        for name, found in loaded.items():
            assert found.definition.workflow_id == Path(name).stem

    def test_fan_out_test_has_eight_nodes_with_three_items(self) -> None:
        definition = load_file(SHIPPED / "fan_out_test.yaml").definition
        assert len(definition.nodes) + 3 == 8
        assert definition.inputs["items"].default == ["alpha", "beta", "gamma"]

    def test_the_valid_corpus_is_a_folder_of_workflows(self) -> None:
        assert len(load_folder(FOLDER / "valid", env_names={"REGION"}, fallback_queue="light-tasks")) == len(
            workflow_files(FOLDER / "valid")
        )

    def test_one_bad_file_refuses_the_folder_and_names_it(self, tmp_path: Path) -> None:
        (tmp_path / "good.yaml").write_text("workflow_id: g\nnodes: {a: {handler: echo, queue: q}}\n")
        (tmp_path / "bad.yml").write_text("workflow_id: b\nnodes: {}\n")
        (tmp_path / ".hidden.yaml").write_text("nonsense")
        (tmp_path / "notes.txt").write_text("nonsense")
        with pytest.raises(InvalidWorkflow) as caught:
            load_folder(tmp_path)
        assert [Path(problem.file).name for problem in caught.value.problems] == ["bad.yml"]

    def test_the_same_id_and_version_twice_is_refused(self, tmp_path: Path) -> None:
        for name in ("one.yaml", "two.yaml"):
            (tmp_path / name).write_text("workflow_id: same\nnodes: {a: {handler: echo, queue: q}}\n")
        with pytest.raises(InvalidWorkflow) as caught:
            load_folder(tmp_path)
        [problem] = caught.value.problems
        assert (Path(problem.file).name, problem.code, problem.line) == ("two.yaml", "duplicate-workflow", 1)


class TestHandlers:
    def test_names_and_aliases_are_known(self) -> None:
        shipped = shipped_handlers()
        for name in (
            "echo",
            "size_check",
            "raster.validate",
            "raster_validate",
            "raster_cog_docker",
            "stats_zonal",
        ):
            assert name in shipped

    def test_entries_can_be_added_and_replaced(self) -> None:
        more = read_handlers('[{"name": "mine.own", "aliases": ["own"], "queue": "q"}, {"name": "echo", "queue": "z"}]')
        extended = shipped_handlers().with_entries(more)
        assert extended.queue_of("own") == "q"
        assert extended.queue_of("echo") == "z"
        assert shipped_handlers().queue_of("echo") is None
        assert "mine.own" not in shipped_handlers()

    @pytest.mark.parametrize("text", ["", "{}", '[{"name": "A B"}]', '[{"name": "a", "unknown": 1}]', '["echo"]'])
    def test_a_bad_list_is_a_value_error(self, text: str) -> None:
        with pytest.raises(ValueError, match="validation error"):
            read_handlers(text)
