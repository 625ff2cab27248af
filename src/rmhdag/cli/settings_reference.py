"""The reference of all settings as Markdown, made from the settings themselves.

Run it by `python -m rmhdag.cli.settings_reference`.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from rmhdag.cli.settings import grouped_fields, variables_of

INTRODUCTION = """\
# Settings

<!-- Made by `python -m rmhdag.cli.settings_reference > docs/settings.md`; a test keeps it up to date. -->

The value of a setting comes from the first of these sources that has it: a flag, the environment, a file
(`RMHDAG_CONFIG`, `./rmhdag.toml`, `~/.config/rmhdag/config.toml`), `development.toml` in the data folder (written by
`rmhdag up`), the default. `rmhdag config show` lists all settings with their values and origins; passwords are masked.
In a file, a setting has the name in the first column:

```toml
retention_days = 365
worker_queue = "heavy-tasks"
```

`./rmhdag.toml` and the user's own file are ignored, with a warning, if they belong to another user than yourself or
root, or if everybody can write them. A key or password from another source is not sent to a server that
`./rmhdag.toml` names. A file that `RMHDAG_CONFIG` names is trusted.

If a setting has several variables, the first one that is set is used. Orchestrators, workers and APIs each read their
own environment: give the same values to all of them.
"""


def reference() -> str:
    lines = [INTRODUCTION.rstrip("\n")]
    for title, fields in grouped_fields().items():
        lines += [f"\n## {title}\n", *table(fields)]
    return "\n".join(lines) + "\n"


def table(fields: dict[str, FieldInfo]) -> Iterator[str]:
    yield "| setting | environment | default | meaning |"
    yield "|---|---|---|---|"
    for name, field in fields.items():
        variables = " ".join(f"`{variable}`" for variable in variables_of(name))
        text = (field.description or "").replace("|", "\\|")
        yield f"| `{name}` | {variables} | {default_of(field)} | {text} |"


def default_of(field: FieldInfo) -> str:
    value = field.default
    if value is None or value is PydanticUndefined or value == "":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:.10g}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    print(reference(), end="")
