"""The reference of all settings as Markdown, made from the settings themselves.

Run it by `python -m rmhdag.cli.settings_reference`.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from rmhdag.cli.access_settings import AccessSettings
from rmhdag.cli.machine_settings import MachineSettings
from rmhdag.cli.raster_settings import RasterSettings
from rmhdag.cli.settings import Settings, variables_of

INTRODUCTION = """\
# Settings

<!-- Made by `python -m rmhdag.cli.settings_reference > docs/settings.md`; a test keeps it up to date. -->

A setting comes from a flag, else from the environment, else from a file (`RMHDAG_CONFIG`, `./rmhdag.toml`,
`~/.config/rmhdag/config.toml`), else from `development.toml` in the data folder, which `rmhdag up` writes, else it has
its default. `rmhdag config show` lists all of them with their values and origins; passwords are masked. In a file, a
setting has the name of the first column:

```toml
retention_days = 365
worker_queue = "heavy-tasks"
```

`./rmhdag.toml` and the user's own file are ignored, with a warning, if they belong to another user than yourself or
root, or if everybody can write them. A key or password from elsewhere is not sent to a server that `./rmhdag.toml`
names. A file that `RMHDAG_CONFIG` names is trusted.

Where a setting has several variables, the first that is set counts. Orchestrators, workers and APIs each read their own
environment: give the same values to all of them.
"""


def reference() -> str:
    machine = without(MachineSettings.model_fields, RasterSettings.model_fields)
    parts = {"Access": AccessSettings.model_fields, "Machine": machine, "Rasters": RasterSettings.model_fields}
    inherited = {name for fields in parts.values() for name in fields}
    lines = [INTRODUCTION, *table({name: one for name, one in Settings.model_fields.items() if name not in inherited})]
    for title, fields in parts.items():
        lines += [f"\n## {title}\n", *table(fields)]
    return "\n".join(lines) + "\n"


def without(fields: dict[str, FieldInfo], others: dict[str, FieldInfo]) -> dict[str, FieldInfo]:
    return {name: field for name, field in fields.items() if name not in others}


def table(fields: dict[str, FieldInfo]) -> Iterator[str]:
    yield "| setting | environment | default | what it is |"
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
