"""All settings, where each came from, and how it may be shown: flag over environment over file over default.

This is the only place that reads the environment for the platform; everything else gets values.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from rmhdag.cli.access_settings import AccessSettings
from rmhdag.cli.credentials import find_shown_password, find_withheld
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.machine_settings import MachineSettings
from rmhdag.cli.output import warn
from rmhdag.cli.setting_types import (
    Algorithm,
    Days,
    HostList,
    Interval,
    Name,
    NumberList,
    PayloadDays,
    Platforms,
    PostgresUrl,
    QueueName,
    QuotaList,
    SafeUrl,
    SchemaName,
    StorageOptions,
    StorageShares,
    StorageUrl,
    VariableNames,
    WebUrl,
    split_names,
)
from rmhdag.cli.settings_files import CONFIG_VARIABLE, ReadFile, read_files, untrusted_files
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.models.quotas import Quotas, read_quotas
from rmhdag.models.records import Zone
from rmhdag.models.scopes import Scope
from rmhdag.storage.namespaces import check_shares
from rmhdag.storage.settings import (
    OPTIONS_VARIABLE,
    ROOT_VARIABLE,
    SHARES_VARIABLE,
    ZONE_VARIABLES,
    StorageSettings,
)
from rmhdag.store.vault import KeyFile, Vault, use_for_inputs

if TYPE_CHECKING:
    from rmhdag.store.retention import RetentionDays

PREFIX = "RMHDAG_"
KEY_FILE = "secret.key"
# Read by others: the tests, the scripts, the command line itself.
OTHER_VARIABLES = frozenset({CONFIG_VARIABLE, "RMHDAG_TEST_PROCESSES"})


def named(*names: str) -> AliasChoices:
    return AliasChoices(*names)


class Settings(AccessSettings, MachineSettings):
    """Names of environment variables are ours first, then those that the platform's documents use."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        case_sensitive=True,
        env_ignore_empty=True,
        populate_by_name=True,
        extra="forbid",
        validate_default=False,
    )

    database_url: PostgresUrl | None = Field(
        default=None,
        validation_alias=named("RMHDAG_DATABASE_URL", "DATABASE_URL"),
        description="PostgreSQL 14 or newer; without it, an embedded one in the data folder is used",
    )
    url: WebUrl | None = Field(
        default=None,
        validation_alias=named("RMHDAG_URL"),
        description="URL of a server; commands for jobs and workflows talk to it instead of to a database",
    )
    key: SecretStr | None = Field(
        default=None,
        validation_alias=named("RMHDAG_KEY", "RMHDAG_API_KEY"),
        description="The key that commands and workers send to a server",
    )
    postgis_host: str | None = Field(
        default=None,
        validation_alias=named("POSTGIS_HOST"),
        description="Host of the database; with POSTGIS_DATABASE, instead of a URL",
    )
    postgis_port: int = Field(
        default=5432, ge=1, le=65535, validation_alias=named("POSTGIS_PORT"), description="Port of that server"
    )
    postgis_database: str | None = Field(
        default=None, validation_alias=named("POSTGIS_DATABASE"), description="Database on that server"
    )
    postgis_user: str | None = Field(
        default=None, validation_alias=named("POSTGIS_USER"), description="User of that database"
    )
    postgis_password: str | None = Field(
        default=None, validation_alias=named("POSTGIS_PASSWORD"), description="Password of that user"
    )
    schema_name: SchemaName = Field(
        default="dagapp",
        validation_alias=named("RMHDAG_SCHEMA", "RMHDAG_SCHEMA_NAME"),
        description="The schema that holds our tables",
    )
    home: Path | None = Field(
        default=None, validation_alias=named("RMHDAG_HOME"), description="Data folder of the embedded PostgreSQL"
    )
    postgis: bool = Field(
        default=False,
        validation_alias=named("RMHDAG_POSTGIS"),
        description="Embedded PostgreSQL: prefer an installed one that has PostGIS",
    )
    job_queue_name: QueueName | None = Field(
        default=None,
        validation_alias=named("RMHDAG_JOB_QUEUE_NAME", "JOB_QUEUE_NAME"),
        description="Name of the queue for submitted jobs; an orchestrator does not start without it",
    )
    dag_worker_queue: QueueName | None = Field(
        default=None,
        validation_alias=named("RMHDAG_DAG_WORKER_QUEUE", "DAG_WORKER_QUEUE"),
        description="Queue for light tasks, and for tasks that name none; an orchestrator does not start without it",
    )
    worker_queue: QueueName | None = Field(
        default=None,
        validation_alias=named("RMHDAG_WORKER_QUEUE", "WORKER_QUEUE"),
        description="Queue for heavy tasks; an orchestrator does not start without it",
    )
    quotas: QuotaList = Field(
        default="",
        validation_alias=named("RMHDAG_QUOTAS"),
        description="Quotas of namespaces that have none of their own, as in open_jobs=1000, running_share=50",
    )
    template_env: VariableNames = Field(
        default="",
        validation_alias=named("RMHDAG_TEMPLATE_ENV"),
        description="Variables of the orchestrators' environment that templates may read as env.NAME, by name",
    )
    development: bool = Field(
        default=False,
        validation_alias=named("RMHDAG_DEVELOPMENT"),
        description="A workflow's version may change its content",
    )
    examples: bool | None = Field(
        default=None,
        validation_alias=named("RMHDAG_EXAMPLES"),
        description="Workers have the example handlers (echo, sleep and others); without it, in development mode only",
    )
    database_pooled: bool = Field(
        default=False,
        validation_alias=named("RMHDAG_DATABASE_POOLED"),
        description="A transaction pooler stands before the database: no LISTEN, no prepared statements",
    )
    notify: bool = Field(
        default=True, validation_alias=named("RMHDAG_NOTIFY"), description="Be woken by NOTIFY; else only poll"
    )
    heartbeat_seconds: Interval = Field(
        default=2.0,
        validation_alias=named("RMHDAG_HEARTBEAT_SECONDS", "RMHDAG_HEARTBEAT_INTERVAL_SEC", "HEARTBEAT_INTERVAL_SEC"),
        description="Seconds between two heartbeats of a process",
    )
    orphan_seconds: Interval = Field(
        default=10.0,
        validation_alias=named("RMHDAG_ORPHAN_SECONDS", "RMHDAG_ORPHAN_THRESHOLD_SEC", "ORPHAN_THRESHOLD_SEC"),
        description="Seconds without a heartbeat before a process is considered dead",
    )
    orphan_scan_seconds: Interval = Field(
        default=1.0,
        validation_alias=named(
            "RMHDAG_ORPHAN_SCAN_SECONDS", "RMHDAG_ORPHAN_SCAN_INTERVAL_SEC", "ORPHAN_SCAN_INTERVAL_SEC"
        ),
        description="Seconds between two looks for processes that are dead",
    )
    poll_seconds: Interval = Field(
        default=1.0,
        validation_alias=named("RMHDAG_POLL_SECONDS", "RMHDAG_POLL_INTERVAL_SEC", "POLL_INTERVAL_SEC"),
        description="Seconds between two looks for work when no notification arrives",
    )
    retention_days: Days = Field(
        default=30.0,
        validation_alias=named("RMHDAG_RETENTION_DAYS"),
        description="Days after which a finished job is deleted with its nodes, results, events and logs",
    )
    retention_history_days: Days = Field(
        default=92.0,
        validation_alias=named("RMHDAG_RETENTION_HISTORY_DAYS"),
        description="Days after which dead letters, events of orchestrators and ended API keys are deleted",
    )
    retention_payload_days: PayloadDays = Field(
        default=1.0,
        validation_alias=named("RMHDAG_RETENTION_PAYLOAD_DAYS"),
        description="Days after which a stored value that nothing refers to is deleted",
    )
    stall_warning_seconds: Interval = Field(
        default=300.0,
        validation_alias=named("RMHDAG_STALL_WARNING_SECONDS"),
        description="Seconds without progress before a running job is reported as stalled, with what it waits for",
    )
    # Longer than a handler may put a task off: a job that waits for that is not stuck.
    stuck_job_days: Days = Field(
        default=8.0,
        validation_alias=named("RMHDAG_STUCK_JOB_DAYS"),
        description="Days without progress before a job fails in which nothing is left that could move",
    )
    worker_wait_days: Days | None = Field(
        default=None,
        validation_alias=named("RMHDAG_WORKER_WAIT_DAYS"),
        description="Days that a job may wait for a worker before it fails; if not given, as long as it takes",
    )
    concurrency: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        validation_alias=named("RMHDAG_CONCURRENCY"),
        description="Tasks that a worker runs at a time; as many as it has processors, if not given",
    )
    task_memory_mb: int | None = Field(
        default=None,
        ge=16,
        validation_alias=named("RMHDAG_TASK_MEMORY_MB"),
        description="Memory that one task may use, in MB; a task that uses more is ended",
    )
    worker_stop_seconds: Interval = Field(
        default=30.0,
        validation_alias=named("RMHDAG_WORKER_STOP_SECONDS"),
        description="Seconds that tasks have to finish or save when their worker is asked to stop",
    )
    handlers: str = Field(
        default="",
        validation_alias=named("RMHDAG_HANDLERS"),
        description="Modules that declare handlers, besides ours; separated by commas",
    )
    warm: bool | None = Field(
        default=None,
        validation_alias=named("RMHDAG_WARM"),
        description="Workers load the libraries for rasters before the first task asks; if not given, those of `up` do",
    )

    storage: StorageUrl | None = Field(
        default=None,
        validation_alias=named(ROOT_VARIABLE),
        description="Blob storage: a folder, file://, az:// or s3://, in which bronze, silver and gold are folders",
    )
    storage_bronze: StorageUrl | None = Field(
        default=None, validation_alias=named(ZONE_VARIABLES[Zone.BRONZE]), description="What came in, if it lies apart"
    )
    storage_silver: StorageUrl | None = Field(
        default=None, validation_alias=named(ZONE_VARIABLES[Zone.SILVER]), description="What was processed, likewise"
    )
    storage_gold: StorageUrl | None = Field(
        default=None, validation_alias=named(ZONE_VARIABLES[Zone.GOLD]), description="What is published, likewise"
    )
    storage_options: StorageOptions = Field(
        default_factory=dict,
        validation_alias=named(OPTIONS_VARIABLE),
        description='Keys and endpoints: {"azure_account_key": "…", "silver.aws_region": "eu-central-1"}',
    )
    storage_shares: StorageShares = Field(
        default_factory=dict,
        validation_alias=named(SHARES_VARIABLE),
        description="Containers of namespace default that others may use, to `read` or `write`; `*` is every "
        'namespace: {"alpha": {"bronze/reference": "read"}}',
    )
    catalogue: CatalogueKind = Field(
        default=CatalogueKind.STATIC,
        validation_alias=named("RMHDAG_CATALOGUE"),
        description="Where STAC items are published: static (files in zone gold) or pgstac (in the database)",
    )
    api_host: str = Field(
        default="127.0.0.1",
        validation_alias=named("RMHDAG_API_HOST"),
        description="Address on which the HTTP API listens",
    )
    api_port: int = Field(
        default=8700,
        ge=0,
        le=65535,
        validation_alias=named("RMHDAG_API_PORT"),
        description="Port of the HTTP API; 0 takes a free one",
    )
    submits_per_second: float = Field(
        default=2_000.0,
        gt=0,
        le=1_000_000,
        allow_inf_nan=False,
        validation_alias=named("RMHDAG_SUBMITS_PER_SECOND"),
        description="Jobs that one key may submit to an API process, in the long run",
    )
    requests_per_second: float = Field(
        default=1_000.0,
        gt=0,
        le=1_000_000,
        allow_inf_nan=False,
        validation_alias=named("RMHDAG_REQUESTS_PER_SECOND"),
        description="Requests that one key may send to an API process, in the long run; above it 429",
    )
    check_processes: int = Field(
        default=2,
        ge=1,
        le=64,
        validation_alias=named("RMHDAG_CHECK_PROCESSES"),
        description="Processes of an API that check workflows and large parameters; a namespace has all but one",
    )
    api_header_seconds: Interval = Field(
        default=10.0,
        validation_alias=named("RMHDAG_API_HEADER_SECONDS"),
        description="Time limit for receiving the request headers, in seconds",
    )
    api_body_seconds: Interval = Field(
        default=30.0,
        validation_alias=named("RMHDAG_API_BODY_SECONDS"),
        description="Time limit for receiving the request body, in seconds",
    )
    oidc_issuer: SafeUrl | None = Field(
        default=None,
        validation_alias=named("RMHDAG_OIDC_ISSUER"),
        description="Whose tokens the API accepts besides its keys; as in the token's `iss`",
    )
    oidc_audience: str | None = Field(
        default=None, validation_alias=named("RMHDAG_OIDC_AUDIENCE"), description="The token's `aud`"
    )
    oidc_jwks_url: SafeUrl | None = Field(
        default=None,
        validation_alias=named("RMHDAG_OIDC_JWKS_URL"),
        description="The issuer's keys; found by discovery if not given",
    )
    oidc_role_claim: str = Field(
        default="roles",
        validation_alias=named("RMHDAG_OIDC_ROLE_CLAIM"),
        description="Where a token names roles; `realm_access.roles` is a path",
    )
    oidc_role_scopes: dict[str, list[Scope]] = Field(
        default_factory=dict,
        validation_alias=named("RMHDAG_OIDC_ROLE_SCOPES"),
        description='What each role may do: {"Jobs.Read": ["read"], "Jobs.Admin": ["admin"]}',
    )
    oidc_name_claim: str = Field(
        default="sub", validation_alias=named("RMHDAG_OIDC_NAME_CLAIM"), description="Where a token names its holder"
    )
    oidc_namespace: Name = Field(
        default="default", validation_alias=named("RMHDAG_OIDC_NAMESPACE"), description="Where its holders belong"
    )
    oidc_namespace_claim: str | None = Field(
        default=None,
        validation_alias=named("RMHDAG_OIDC_NAMESPACE_CLAIM"),
        description="Where a token names its holder's namespace, instead of the one above",
    )
    oidc_algorithms: list[Algorithm] = Field(
        default=["RS256", "ES256"],
        min_length=1,
        validation_alias=named("RMHDAG_OIDC_ALGORITHMS"),
        description="How tokens may be signed",
    )
    worker_health_host: str = Field(
        default="127.0.0.1",
        validation_alias=named("RMHDAG_WORKER_HEALTH_HOST"),
        description="Address on which a worker reports its health over HTTP",
    )
    worker_health_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        validation_alias=named("RMHDAG_WORKER_HEALTH_PORT"),
        description="Port of that report, 0 for a free one; no report if not given",
    )
    log_format: Literal["logfmt", "json"] = Field(
        default="logfmt", validation_alias=named("RMHDAG_LOG_FORMAT"), description="Of lines on stderr: logfmt or json"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", validation_alias=named("RMHDAG_LOG_LEVEL"), description="debug, info, warning or error"
    )
    otlp_endpoint: str | None = Field(
        default=None,
        validation_alias=named("RMHDAG_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        description="Where traces go by OTLP over HTTP, as http://collector:4318; nowhere without it",
    )
    applicationinsights_connection_string: str | None = Field(
        default=None,
        validation_alias=named("APPLICATIONINSIGHTS_CONNECTION_STRING"),
        description="Traces to Azure Monitor; needs the extra azure-monitor",
    )

    public_url: WebUrl | None = Field(
        default=None,
        validation_alias=named("RMHDAG_PUBLIC_URL"),
        description="How others reach the HTTP API; stands before the result URLs of callbacks",
    )
    platforms: Platforms = Field(
        default="",
        validation_alias=named("RMHDAG_PLATFORMS"),
        description="Platforms beside ddh and arcgis, and their references: `geonode=dataset,layer?; ckan=package`",
    )
    callback_hosts: HostList = Field(
        default="",
        validation_alias=named("RMHDAG_CALLBACK_HOSTS"),
        description="Hosts that callbacks may go to although they are not public, separated by commas: host or "
        "host:port for the namespace `default`, NAMESPACE=host for another one, *=host for all",
    )
    callback_refused_ports: NumberList | None = Field(
        default=None,
        validation_alias=named("RMHDAG_CALLBACK_REFUSED_PORTS"),
        description="Ports that callbacks never go to, instead of those of databases, caches and brokers",
    )
    callback_retry_seconds: NumberList | None = Field(
        default=None,
        validation_alias=named("RMHDAG_CALLBACK_RETRY_SECONDS"),
        description="Pauses between the tries of a callback, instead of 5 s to 24 h in nine steps",
    )
    callback_timeout_seconds: Interval = Field(
        default=15.0,
        validation_alias=named("RMHDAG_CALLBACK_TIMEOUT_SECONDS", "RMHDAG_CALLBACK_TIMEOUT_SEC"),
        description="One try of a callback, from looking up the host to the answer",
    )
    callback_secret_key: str | None = Field(
        default=None,
        min_length=16,
        validation_alias=named("RMHDAG_CALLBACK_SECRET_KEY"),
        description="Seals the secrets of callback endpoints in the database; without it, the key file does",
    )
    secret_key: SecretStr | None = Field(
        default=None,
        min_length=16,
        validation_alias=named("RMHDAG_SECRET_KEY"),
        description="Seals secret inputs in the database, the same for all processes; without it, the key file does",
    )
    api_listeners: int = Field(
        default=1_000,
        ge=0,
        le=100_000,
        validation_alias=named("RMHDAG_API_LISTENERS"),
        description="Live streams that one API process serves",
    )
    api_listeners_per_key: int = Field(
        default=100,
        ge=0,
        le=100_000,
        validation_alias=named("RMHDAG_API_LISTENERS_PER_KEY"),
        description="Live streams that one key may have open on one API process",
    )
    api_origins: str = Field(
        default="",
        pattern=r"^(https?://[^\s/]+(\s+|$))*$",
        validation_alias=named("RMHDAG_API_ORIGINS"),
        description="Other sites whose pages may call the API, as in `https://ops.example.org`, separated by spaces",
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

    @property
    def server_url(self) -> str | None:
        """The named server, in whichever way it is named; None means the embedded one."""
        if self.database_url or not (self.postgis_host and self.postgis_database):
            return self.database_url
        user = quote(self.postgis_user or "", safe="")
        password = f":{quote(self.postgis_password, safe='')}" if self.postgis_password else ""
        login = f"{user}{password}@" if user else ""
        return f"postgresql://{login}{self.postgis_host}:{self.postgis_port}/{quote(self.postgis_database, safe='')}"

    def key_file(self) -> KeyFile:
        """Made by itself only beside an embedded database: a file that other machines or the next container do not have
        would make secrets unreadable.
        """
        from rmhdag.embedded.choice import default_folder

        is_embedded = self.server_url is None and self.url is None
        given = self.secret_key_file
        return KeyFile(given or (self.home or default_folder()) / KEY_FILE, is_embedded or given is not None)

    def template_names(self) -> list[str]:
        return split_names(self.template_env)

    def template_values(self) -> dict[str, str]:
        """Of the variables that templates may read, those that are set here."""
        return {name: os.environ[name] for name in self.template_names() if name in os.environ}

    def retention(self) -> RetentionDays:
        from rmhdag.store.retention import RetentionDays

        return RetentionDays(self.retention_days, self.retention_history_days, self.retention_payload_days)

    def storage_settings(self) -> StorageSettings:
        zones = {Zone.BRONZE: self.storage_bronze, Zone.SILVER: self.storage_silver, Zone.GOLD: self.storage_gold}
        given = {zone: url for zone, url in zones.items() if url is not None}
        return StorageSettings(self.storage, given, self.storage_options, check_shares(self.storage_shares))

    def quota_defaults(self) -> Quotas:
        return Quotas().with_overrides(read_quotas(self.quotas))


class Loaded(NamedTuple):
    settings: Settings
    origins: dict[str, str]
    warnings: list[str]
    # Credentials that are not used, and why.
    withheld: dict[str, str]


def load_settings(flags: Mapping[str, Any] | None = None) -> Loaded:
    """`flags` are those that were given on the command line; None counts as not given."""
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    if "database_url" in given:
        # Whoever names another database does not mean the owner of the one in the environment.
        given.setdefault("owner_database_url", given["database_url"])
    layers = read_files(Settings.model_fields)
    origins = {name: find_origin(name, given, layers) for name in Settings.model_fields}
    try:
        settings = Settings(**given)
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
    use_for_inputs(Vault(passphrase, settings.key_file()))
    unsafe = [*untrusted_files(), *withheld.values(), *find_shown_password(given)]
    for warning in unsafe:
        # Whoever would send the key says so by an error; the others do without it.
        if warning != withheld.get("key"):
            warn(warning)
    return Loaded(settings, origins, [*unsafe, *find_misspelt()], withheld)


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
    known = {name for field in Settings.model_fields for name in variables_of(field)} | OTHER_VARIABLES
    warnings = []
    for name in sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known):
        close = get_close_matches(name, known, n=1)
        warnings.append(f"{name} is set but means nothing to rmhdag" + (f"; did you mean {close[0]}?" if close else ""))
    return warnings
