"""What the value of a setting may be, so that a wrong one is refused before anything starts."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from rmhdag.observability.secrets import looks_secret
from rmhdag.storage.errors import StorageError
from rmhdag.storage.namespaces import Access, check_shares
from rmhdag.storage.settings import split_option
from rmhdag.worker.task_environment import belongs_to_platform


def refuse_reserved(name: str) -> str:
    if name.startswith("pg_"):
        raise ValueError("PostgreSQL keeps names that begin with pg_ for itself")
    return name


def refuse_unsafe(url: str) -> str:
    """What anybody on the way could change is worth nothing; only this machine is near enough."""
    parts = urlsplit(url)
    if not parts.hostname or parts.scheme not in ("https", "http"):
        raise ValueError("this is no URL of a server: https://…")
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise ValueError("only https is safe here")
    return url


def refuse_unusable(url: str) -> str:
    """Credentials in it would be shown wherever a file is named."""
    if not re.fullmatch(r"/[^\x00-\x1f]*|(file://(localhost)?/|az://|s3://)[^\s@?#]*", url):
        raise ValueError(
            "give a folder from / down, file://…, az://account/container or s3://bucket, and no credentials"
        )
    return url


def refuse_unknown_options(options: dict[str, str]) -> dict[str, str]:
    for name in options:
        try:
            split_option(name)
        except StorageError as error:
            raise ValueError(str(error)) from None
    return options


def refuse_wrong_shares(shares: dict[str, dict[str, str]]) -> dict[str, dict[str, Access]]:
    try:
        return check_shares(shares)
    except StorageError as error:
        raise ValueError(str(error)) from None


def check_platforms(text: str) -> str:
    from rmhdag.assets.identity import read_platforms

    read_platforms(text)
    return text


def check_quotas(text: str) -> str:
    from rmhdag.models.quotas import read_quotas

    read_quotas(text)
    return text


def refuse_secret_names(text: str) -> str:
    """What templates read is stored and shown with jobs: nothing that lets anybody in belongs there."""
    for name in split_names(text):
        if name.startswith("RMHDAG_") or name.endswith(("_URL", "KEY")) or looks_secret(name):
            raise ValueError(
                f"{name} looks like a secret or an address with one; give it to jobs as an input with `secret: true`"
            )
    return text


def split_names(text: str) -> list[str]:
    return text.replace(",", " ").split()


def refuse_secrets_of_platform(text: str) -> str:
    """A handler that knew these would be the platform."""
    for name in split_names(text):
        if belongs_to_platform(name):
            raise ValueError(f"{name} is not passed on to tasks: it belongs to the platform")
    return text


QueueName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
SchemaName = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_]{0,47}$"), AfterValidator(refuse_reserved)]
Interval = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
# From a minute and a half: parts of a day are for tests.
Days = Annotated[float, Field(ge=0.001, le=36_500, allow_inf_nan=False)]
# Whoever stores a payload must have time to report it before it may be deleted.
PayloadDays = Annotated[float, Field(ge=0.01, le=36_500, allow_inf_nan=False)]
VariableNames = Annotated[
    str,
    StringConstraints(pattern=r"^\s*([A-Za-z_][A-Za-z0-9_]*([\s,]+|$))*$", max_length=10_000),
    AfterValidator(refuse_secret_names),
]
PassedVariables = Annotated[
    str,
    StringConstraints(pattern=r"^\s*([A-Za-z_][A-Za-z0-9_]*\*?([\s,]+|$))*$", max_length=10_000),
    AfterValidator(refuse_secrets_of_platform),
]
Umask = Annotated[str, StringConstraints(pattern=r"^0?[0-7]{3}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
SafeUrl = Annotated[str, AfterValidator(refuse_unsafe)]
# None of those for which whoever can check a token can also make one.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
NumberList = Annotated[str, StringConstraints(pattern=r"^\s*\d+(\.\d+)?(\s*,\s*\d+(\.\d+)?)*\s*$")]
HostList = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:,=*\[\] -]*$")]
WebUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s?#]+$")]
StorageUrl = Annotated[str, AfterValidator(refuse_unusable)]
StorageShares = Annotated[dict[str, dict[str, str]], AfterValidator(refuse_wrong_shares)]
StorageOptions = Annotated[dict[str, str], AfterValidator(refuse_unknown_options)]
PostgresUrl = Annotated[str, StringConstraints(pattern=r"^postgres(ql)?://")]
Platforms = Annotated[str, AfterValidator(check_platforms)]
QuotaList = Annotated[str, AfterValidator(check_quotas)]
