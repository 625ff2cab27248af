"""Templates in the `checks` of a workflow: they read nothing but inputs, because there is no job yet."""

from __future__ import annotations

from typing import Any

from rmhdag.workflow.template_rules import Place, TemplateRules

_BEFORE_JOB = Place(None, inputs_only=True)
_TEMPLATES = ("container", "path", "paths", "zone", "prefix", "value")


def check_checks(checks: Any, templates: TemplateRules) -> None:
    for index, check in enumerate(checks if isinstance(checks, list) else ()):
        if isinstance(check, dict):
            for field in _TEMPLATES:
                templates.check_value(check.get(field), ("checks", index, field), _BEFORE_JOB)
            templates.check_condition(check.get("when"), ("checks", index, "when"), _BEFORE_JOB)
