"""All settings of the platform, where each came from, and what is wrong with one: each package declares its own.

Flag over environment over file over default. This is the only module that reads the environment for the platform;
all others receive values.
"""

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from rmhdag.api.configuration import ApiConfiguration, OidcConfiguration
from rmhdag.assets.configuration import PlatformConfiguration
from rmhdag.catalogue.configuration import CatalogueConfiguration
from rmhdag.cli.configuration import CommandConfiguration
from rmhdag.cli.credentials import find_shown_password, find_withheld
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import warn
from rmhdag.cli.settings_files import CONFIG_VARIABLE, ReadFile, read_files, untrusted_files
from rmhdag.embedded.choice import default_folder
from rmhdag.embedded.configuration import EmbeddedConfiguration
from rmhdag.gateway.configuration import GatewayConfiguration
from rmhdag.handlers.configuration import RasterConfiguration, VectorConfiguration
from rmhdag.machine.private_files import UnsafeFolder, make_private_folder
from rmhdag.messaging.configuration import NotificationConfiguration
from rmhdag.models.setting_types import PREFIX
from rmhdag.observability.configuration import ObservabilityConfiguration
from rmhdag.orchestrator.configuration import OrchestratorConfiguration
from rmhdag.postgis.configuration import DataDatabaseConfiguration
from rmhdag.services.callbacks.configuration import CallbackConfiguration
from rmhdag.services.configuration import ServiceConfiguration
from rmhdag.serving.configuration import ServingConfiguration
from rmhdag.storage.configuration import StorageConfiguration
from rmhdag.store.configuration import DatabaseConfiguration, RetentionConfiguration, SecretConfiguration
from rmhdag.store.vault import KeyFile, Vault, use_for_inputs
from rmhdag.worker.configuration import WorkerConfiguration

KEY_FILE = "secret.key"
# Read by others: the tests, the scripts, the command line itself.
OTHER_VARIABLES = frozenset({CONFIG_VARIABLE, "RMHDAG_TEST_PROCESSES"})

# In the order in which they are shown and documented.
GROUPS: dict[str, type[BaseModel]] = {
    "Database": DatabaseConfiguration,
    "Data folder and embedded PostgreSQL": EmbeddedConfiguration,
    "Server": CommandConfiguration,
    "Secrets": SecretConfiguration,
    "Retention": RetentionConfiguration,
    "Workflows and quotas": ServiceConfiguration,
    "Platforms": PlatformConfiguration,
    "Orchestrators": OrchestratorConfiguration,
    "Notifications": NotificationConfiguration,
    "Workers": WorkerConfiguration,
    "Rasters": RasterConfiguration,
    "Vectors": VectorConfiguration,
    "Data database": DataDatabaseConfiguration,
    "Storage": StorageConfiguration,
    "Catalogue": CatalogueConfiguration,
    "HTTP API": ApiConfiguration,
    "Access tokens": OidcConfiguration,
    "Callbacks": CallbackConfiguration,
    "Gateway": GatewayConfiguration,
    "Services for maps and catalogues": ServingConfiguration,
    "Logs and traces": ObservabilityConfiguration,
}


class Settings(
    DatabaseConfiguration,
    EmbeddedConfiguration,
    CommandConfiguration,
    SecretConfiguration,
    RetentionConfiguration,
    ServiceConfiguration,
    PlatformConfiguration,
    OrchestratorConfiguration,
    NotificationConfiguration,
    WorkerConfiguration,
    RasterConfiguration,
    VectorConfiguration,
    DataDatabaseConfiguration,
    StorageConfiguration,
    CatalogueConfiguration,
    ApiConfiguration,
    OidcConfiguration,
    CallbackConfiguration,
    GatewayConfiguration,
    ServingConfiguration,
    ObservabilityConfiguration,
    BaseSettings,
):
    """Names of environment variables are ours first, then those that the platform's documents use."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        case_sensitive=True,
        env_ignore_empty=True,
        populate_by_name=True,
        extra="forbid",
        validate_default=False,
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        layers = [InitSettingsSource(settings_cls, init_kwargs=layer.values) for layer in read_files(cls.model_fields)]
        return init_settings, env_settings, *layers

    def key_file(self) -> KeyFile:
        """Created if it does not exist, unless commands only call a server and thus encrypt nothing.

        Other machines may store secrets in an external database too: Vault.prepare makes sure that all use one key.
        """
        path = self.secret_key_file
        encrypts = self.server_url is not None or self.url is None or path is not None
        return KeyFile(path or (self.home or default_folder()) / KEY_FILE, encrypts, self.server_url is not None)

    def template_values(self) -> dict[str, str]:
        """The variables that templates may read and that are set in this environment."""
        return {name: os.environ[name] for name in self.template_names() if name in os.environ}

    def scratch_folder(self, home: Path) -> Path | None:
        """The configured folder, or one in the data folder; None (a new temporary folder) if that one is unsafe."""
        if self.scratch is not None:
            return self.scratch
        try:
            return make_private_folder(home / "scratch")
        except UnsafeFolder as error:
            warn(f"{error}; tasks use a new temporary folder instead, unless RMHDAG_SCRATCH names one")
        except OSError:
            # A worker that reaches the platform over HTTP needs no data folder.
            pass
        return None


class Loaded(NamedTuple):
    settings: Settings
    origins: dict[str, str]
    warnings: list[str]
    # Credentials that are not used, with the reason.
    withheld: dict[str, str]


def load_settings(flags: Mapping[str, Any] | None = None) -> Loaded:
    """`flags` are those of the command line; one that is None is not set."""
    set_flags = {name: value for name, value in (flags or {}).items() if value is not None}
    if "database_url" in set_flags:
        # The owner in the environment belongs to the database in the environment, not to the one that a flag names.
        set_flags.setdefault("owner_database_url", set_flags["database_url"])
    layers = read_files(Settings.model_fields)
    origins = {name: find_origin(name, set_flags, layers) for name in Settings.model_fields}
    try:
        settings = Settings(**set_flags)
    except ValidationError as error:
        raise CommandFailed(
            "a setting is not valid:\n" + "\n".join(f"  {line}" for line in explain(error, origins)),
            remedy="`rmhdag config show` lists all settings and where they come from.",
            code=ExitCode.INVALID,
        ) from None
    except SettingsError as error:
        raise CommandFailed(
            f"a setting is not JSON: {error}", remedy='Such as {"a": ["b"]} or ["a", "b"].', code=ExitCode.INVALID
        ) from None
    withheld = find_withheld(origins)
    settings = settings.model_copy(update=dict.fromkeys(withheld))
    passphrase = None if settings.secret_key is None else settings.secret_key.get_secret_value()
    use_for_inputs(Vault(passphrase, settings.key_file(), allow_plain=settings.plain_secrets))
    unsafe = [*untrusted_files(), *withheld.values(), *find_shown_password(set_flags)]
    for warning in unsafe:
        # A command that needs the key fails with this reason; the others do without the key.
        if warning != withheld.get("key"):
            warn(warning)
    return Loaded(settings, origins, [*unsafe, *find_misspelt()], withheld)


def grouped_fields() -> dict[str, dict[str, FieldInfo]]:
    """The fields by the title of their group."""
    return {title: group.model_fields for title, group in GROUPS.items()}


def variables_of(field: str) -> list[str]:
    alias = Settings.model_fields[field].validation_alias
    return [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else []


def find_origin(field: str, flags: Mapping[str, Any], layers: list[ReadFile]) -> str:
    if field in flags:
        return "flag"
    variable = next((name for name in variables_of(field) if os.environ.get(name)), None)
    if variable:
        return f"environment {variable}"
    return next((f"file {layer.path}" for layer in layers if field in layer.values), "default")


def explain(error: ValidationError, origins: Mapping[str, str]) -> list[str]:
    lines = []
    for detail in error.errors(include_url=False, include_input=False):
        name = str(detail["loc"][0])
        field = next((field for field in Settings.model_fields if name in (field, *variables_of(field))), name)
        lines.append(f"{field} ({origins.get(field, 'unknown')}): {detail['msg']}")
    return lines


def find_misspelt() -> list[str]:
    variables = {name for field in Settings.model_fields for name in variables_of(field)} | OTHER_VARIABLES
    warnings = []
    for name in sorted(name for name in os.environ if name.startswith(PREFIX) and name not in variables):
        close = get_close_matches(name, variables, n=1)
        warnings.append(f"{name} is set but means nothing to rmhdag" + (f"; did you mean {close[0]}?" if close else ""))
    return warnings
