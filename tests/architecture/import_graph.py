"""Who imports whom when modules are loaded, and the circles in it."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

Graph = Mapping[str, set[str]]


def module_name(path: PurePosixPath) -> str:
    """`rmhdag.engine.flow` for src/rmhdag/engine/flow.py, `rmhdag.engine` for its __init__.py."""
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(sources: Mapping[str, str]) -> Graph:
    """Modules by name with their text; imports of others, inside functions and for the type checker are left out."""
    return {
        name: {known for known in _loaded_modules(ast.parse(text), sources) if known != name}
        for name, text in sources.items()
    }


def find_cycles(graph: Graph) -> list[list[str]]:
    """Each group of modules that reach each other, in the order of their names."""
    reached = {name: _reachable(graph, name) for name in graph}
    groups = {
        tuple(sorted({name, *(other for other in ahead if name in reached[other])}))
        for name, ahead in reached.items()
        if name in ahead
    }
    return [list(group) for group in sorted(groups)]


def _reachable(graph: Graph, start: str) -> set[str]:
    ahead: set[str] = set()
    stack = list(graph[start])
    while stack:
        name = stack.pop()
        if name not in ahead:
            ahead.add(name)
            stack.extend(graph[name])
    return ahead


def _loaded_modules(node: ast.AST, modules: Mapping[str, str]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names if alias.name in modules)
        elif isinstance(child, ast.ImportFrom):
            names = (f"{child.module}.{alias.name}" for alias in child.names)
            yield from {name if name in modules else str(child.module) for name in names} & modules.keys()
        else:
            yield from _loaded_modules(child, modules)
