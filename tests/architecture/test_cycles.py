"""No module needs, while it is loaded, another that needs it: each can be read after those it imports."""

from pathlib import Path, PurePosixPath

from tests.architecture import import_graph, rules

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    import_graph.module_name(path): (ROOT / path).read_text(encoding="utf-8")
    for path in rules.repository_files(ROOT)
    if path.suffix == ".py" and path.parts[:2] == ("src", "rmhdag")
}


def test_the_graph_is_that_of_the_package() -> None:
    graph = import_graph.import_graph(SOURCES)
    assert "rmhdag.engine.plan" in graph["rmhdag.engine.run"]
    assert "rmhdag.models.states" in graph["rmhdag.engine.run"]


def test_modules_do_not_import_each_other_in_circles() -> None:
    assert import_graph.find_cycles(import_graph.import_graph(SOURCES)) == []


def test_the_rules_allow_no_circle_of_packages() -> None:
    graph = {name: set(allowed) for name, allowed in rules.MAY_IMPORT.items()}
    graph["lab"] |= {name for name in graph if name.startswith("lab.")}
    assert import_graph.find_cycles(graph) == []


def test_a_circle_is_found() -> None:
    sources = {
        "a": "from b import x",
        "b": "import c",
        "c": "try:\n    import a\nexcept ImportError:\n    pass",
        "d": "import a",
    }
    assert import_graph.find_cycles(import_graph.import_graph(sources)) == [["a", "b", "c"]]


def test_later_imports_and_those_for_types_make_no_circle() -> None:
    later = "def f() -> None:\n    import a"
    for_types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import X"
    for text in (later, for_types):
        assert import_graph.find_cycles(import_graph.import_graph({"a": "import b", "b": text})) == []


def test_modules_have_the_names_by_which_they_are_imported() -> None:
    assert import_graph.module_name(PurePosixPath("src/rmhdag/engine/__init__.py")) == "rmhdag.engine"
    assert import_graph.module_name(PurePosixPath("src/rmhdag/engine/flow.py")) == "rmhdag.engine.flow"
