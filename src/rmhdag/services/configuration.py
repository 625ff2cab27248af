"""Settings of registrations and submissions: development mode, templates, quotas."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from rmhdag.models.quotas import Quotas, read_quotas
from rmhdag.models.setting_types import SettingsGroup, split_names
from rmhdag.observability.secrets import looks_secret


def check_quotas(text: str) -> str:
    read_quotas(text)
    return text


def refuse_secret_names(text: str) -> str:
    """Values that templates read are stored and shown with jobs, so they must not be credentials."""
    for name in split_names(text):
        if name.startswith("RMHDAG_") or name.endswith(("_URL", "KEY")) or looks_secret(name):
            raise ValueError(
                f"{name} looks like a secret or an address with one; pass it to jobs as an input with `secret: true`"
            )
    return text


QuotaList = Annotated[str, AfterValidator(check_quotas)]
VariableNames = Annotated[
    str,
    StringConstraints(pattern=r"^\s*([A-Za-z_][A-Za-z0-9_]*([\s,]+|$))*$", max_length=10_000),
    AfterValidator(refuse_secret_names),
]


class ServiceConfiguration(SettingsGroup):
    """What users may register and submit."""

    development: bool = Field(
        default=False, description="Development mode: the content of a workflow version may change"
    )
    template_env: VariableNames = Field(
        default="",
        description="Names of environment variables of the orchestrators that templates may read as env.NAME",
    )
    quotas: QuotaList = Field(
        default="",
        description="Quotas of namespaces without quotas of their own, such as open_jobs=1000, running_share=50",
    )

    def template_names(self) -> list[str]:
        return split_names(self.template_env)

    def quota_defaults(self) -> Quotas:
        return Quotas().with_overrides(read_quotas(self.quotas))
