"""YAML text in, checked workflow definition out; every problem with its position.

Names are imported on first use: a caller that only checks for problems does not load the models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmhdag.workflow.handler_manifest import handlers_from_file, read_handlers
    from rmhdag.workflow.inputs import InvalidInputs, validate_inputs
    from rmhdag.workflow.known_handlers import HandlerEntry, KnownHandlers, shipped_handlers
    from rmhdag.workflow.language_schema import json_schema
    from rmhdag.workflow.loader import LoadedWorkflow, check, load, load_file, load_folder
    from rmhdag.workflow.problems import InvalidWorkflow, Problem
    from rmhdag.workflow.source_files import workflow_files
    from rmhdag.workflow.stored_form import definition_hash, definition_json

__all__ = [
    "HandlerEntry",
    "InvalidInputs",
    "InvalidWorkflow",
    "KnownHandlers",
    "LoadedWorkflow",
    "Problem",
    "check",
    "definition_hash",
    "definition_json",
    "handlers_from_file",
    "json_schema",
    "load",
    "load_file",
    "load_folder",
    "read_handlers",
    "shipped_handlers",
    "validate_inputs",
    "workflow_files",
]


def __getattr__(name: str) -> Any:
    match name:
        case "KnownHandlers" | "HandlerEntry" | "shipped_handlers":
            from rmhdag.workflow import known_handlers

            return getattr(known_handlers, name)
        case "handlers_from_file" | "read_handlers":
            from rmhdag.workflow import handler_manifest

            return getattr(handler_manifest, name)
        case "InvalidInputs" | "validate_inputs":
            from rmhdag.workflow import inputs

            return getattr(inputs, name)
        case "json_schema":
            from rmhdag.workflow import language_schema

            return getattr(language_schema, name)
        case "InvalidWorkflow" | "Problem":
            from rmhdag.workflow import problems

            return getattr(problems, name)
        case "definition_hash" | "definition_json":
            from rmhdag.workflow import stored_form

            return getattr(stored_form, name)
        case "workflow_files":
            from rmhdag.workflow import source_files

            return getattr(source_files, name)
        case _ if name in __all__:
            from rmhdag.workflow import loader

            return getattr(loader, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
