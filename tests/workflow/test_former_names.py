"""The table of former names tells the truth: it names what does not exist, and advises what does."""

import re
from itertools import chain

import pytest

from rmhdag.workflow import HandlerEntry, KnownHandlers, check, shipped_handlers
from rmhdag.workflow.former_names import FORMER_HANDLERS, FORMER_ROOTS, HANDLERS, FormerNames, former_names_of

HANDLER_NAME = re.compile(r"`((?:raster|stac)\.[a-z_]+)`")
REMEDIES = [
    *FORMER_HANDLERS.values(),
    *FORMER_ROOTS.values(),
    *chain.from_iterable([*names.params.values(), *names.output.values()] for names in HANDLERS.values()),
]


@pytest.mark.parametrize("handler", HANDLERS)
def test_no_name_of_today_is_a_former_one(handler: str) -> None:
    entry = shipped_handlers().find(handler)
    assert entry is not None
    assert entry.name == handler
    assert not entry.params_schema["properties"].keys() & HANDLERS[handler].params.keys()
    assert not entry.output_schema.get("properties", {}).keys() & HANDLERS[handler].output.keys()


def test_former_handlers_do_not_exist() -> None:
    assert not set(shipped_handlers().names()) & FORMER_HANDLERS.keys()


@pytest.mark.parametrize("remedy", sorted(set(REMEDIES)))
def test_remedies_name_handlers_that_exist(remedy: str) -> None:
    assert set(HANDLER_NAME.findall(remedy)) <= set(shipped_handlers().names())


def test_a_remedy_that_names_a_parameter_of_the_handler_names_one_that_it_has() -> None:
    written = re.compile(r"^Write `([a-z_]+)")
    for handler, names in HANDLERS.items():
        entry = shipped_handlers().find(handler)
        assert entry is not None
        for remedy in names.params.values():
            found = written.match(remedy)
            assert found is None or found[1] in entry.params_schema["properties"], remedy


def test_a_handler_of_another_name_has_no_former_names() -> None:
    assert former_names_of("mine.validate") == FormerNames()
    schema = {"type": "object", "properties": {"path": {}}, "additionalProperties": False}
    known = KnownHandlers([HandlerEntry("mine.validate", params_schema=schema)])
    text = "workflow_id: w\ndefaults: {queue: q}\nnodes:\n  a: {handler: mine.validate, params: {local_path: x}}\n"
    _, (problem,) = check(text, handlers=known)
    assert problem.remedy == "Known are `path`"


def test_what_a_handler_declares_comes_first() -> None:
    params = {"type": "object", "properties": {"local_path": {"type": "string"}}, "additionalProperties": False}
    output = {"type": "object", "properties": {"size_mb": {"type": "number"}}}
    text = """
        workflow_id: w
        defaults: {queue: q}
        nodes:
          a: {handler: raster.validate, params: {local_path: x}}
        outputs:
          size: "{{ nodes.a.output.size_mb }}"
    """
    known = KnownHandlers([HandlerEntry("raster.validate", params_schema=params, output_schema=output)])
    assert check(text, handlers=known)[1] == []
    known = KnownHandlers([HandlerEntry("raster.validate", params_schema=params, output_schema={"properties": 3})])
    _, (problem,) = check(text, handlers=known)
    assert problem.remedy == "Read `file_size_mb`"
