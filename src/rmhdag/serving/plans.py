"""How each service is started: its program, its variables, what it may use and what it may reach."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from psycopg.conninfo import conninfo_to_dict

from rmhdag.serving.environment import environment_folder
from rmhdag.serving.launch import Plan
from rmhdag.serving.service_kinds import FEATURES_SCHEMA, FILES, Service
from rmhdag.storage.gdal import CLOSED

PROGRAMS = Path(__file__).with_name("programs")
BACKLOG = 256
KEEP_ALIVE_SECONDS = 75
GDAL_CACHE_MB = 128
# Of asyncpg, which both services with a database use.
TLS = {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY"}


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """What all services share."""

    python: Path
    memory_mb: int
    seconds: float
    public_url: str | None
    source_socket: Path
    account: pwd.struct_passwd | None

    @property
    def base_path(self) -> str:
        return urlsplit(self.public_url or "").path.rstrip("/")


def plan_of(service: Service, shared: ServingPlan, descriptor: int, dsn: str | None) -> Plan:
    account = shared.account
    return Plan(
        command=[
            *(str(shared.python), "-P", "-m", "uvicorn", "--app-dir", str(reachable_programs()), f"{service}:app"),
            *("--fd", str(descriptor), "--backlog", str(BACKLOG), "--no-access-log", "--no-server-header"),
            *("--timeout-keep-alive", str(KEEP_ALIVE_SECONDS), "--timeout-graceful-shutdown", "5"),
            *(
                "--root-path",
                f"{shared.base_path}/{service}",
                "--proxy-headers",
                "--forwarded-allow-ips",
                "*",
                "--log-level",
                "warning",
            ),
        ],
        environment=variables_of(service, shared, dsn),
        memory_mb=shared.memory_mb,
        parent=os.getpid(),
        uid=account.pw_uid if account else None,
        gid=account.pw_gid if account else None,
        network=service is not Service.TILES,
    )


def variables_of(service: Service, shared: ServingPlan, dsn: str | None) -> dict[str, str]:
    """All that it gets: nothing of our own environment."""
    variables = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "RMHDAG_STATEMENT_MS": str(int(shared.seconds * 1000)),
    }
    if dsn is not None:
        variables |= database_variables(dsn)
    if service is Service.STAC:
        variables |= stac_variables(shared)
    elif service is Service.FEATURES:
        variables["RMHDAG_FEATURES_SCHEMA"] = FEATURES_SCHEMA
    else:
        variables |= tile_variables(shared)
    return variables


def database_variables(dsn: str) -> dict[str, str]:
    parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    host, port = parts.get("host", "127.0.0.1"), parts.get("port", "5432")
    user, password, database = parts.get("user", ""), parts.get("password", ""), parts.get("dbname", "")
    address = f"{quote(user, safe='')}:{quote(password, safe='')}@{host}:{port}/{quote(database, safe='')}"
    variables = {"PGHOST": host, "PGPORT": port, "PGUSER": user, "PGPASSWORD": password, "PGDATABASE": database}
    variables |= {variable: parts[name] for name, variable in TLS.items() if name in parts}
    return variables | {"DATABASE_URL": f"postgresql://{address}"}


def stac_variables(shared: ServingPlan) -> dict[str, str]:
    settings = (
        '{"search_path": "pgstac,public", "application_name": "rmhdag stac", "default_transaction_read_only": "on", '
        f'"pgstac.readonly": "true", "statement_timeout": "{int(shared.seconds * 1000)}"}}'
    )
    return {
        "SERVER_SETTINGS": settings,
        "DB_MAX_CONN_SIZE": "8",
        "STAC_FASTAPI_TITLE": "rmhdag",
        "STAC_FASTAPI_DESCRIPTION": "Published items of the platform",
        "STAC_FASTAPI_LANDING_ID": "rmhdag",
        "STAC_FASTAPI_VERSION": "1",
        "RMHDAG_FILES_PATH": f"{shared.base_path}/{FILES}",
    }


def tile_variables(shared: ServingPlan) -> dict[str, str]:
    """No network, no other files, no plugins; never GDAL_SKIP=VRT, without which GDAL cannot warp."""
    return {
        **CLOSED,
        "GDAL_GEOREF_SOURCES": "INTERNAL",
        "GDAL_VRT_RAWRASTERBAND_ALLOWED_SOURCE": os.devnull,
        "GDAL_DRIVER_PATH": os.devnull,
        "GDAL_CONFIG_FILE": os.devnull,
        "GDAL_CACHEMAX": f"{GDAL_CACHE_MB}MB",
        "GDAL_NUM_THREADS": "1",
        "GDAL_HTTP_TIMEOUT": "1",
        "RIO_TILER_MAX_THREADS": "1",
        "RMHDAG_SOURCE_SOCKET": str(shared.source_socket),
        "RMHDAG_FILES_PATH": f"/{FILES}",
        "RMHDAG_REQUEST_SECONDS": f"{shared.seconds:g}",
    }


def reachable_programs() -> Path:
    """A copy beside the environment: the services' account may not be able to enter the folder of rmhdag."""
    files = sorted(PROGRAMS.glob("*.py"))
    content = hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]
    target = environment_folder() / f"programs-{content}"
    if not target.is_dir():
        part = Path(tempfile.mkdtemp(prefix="programs-", dir=environment_folder()))
        for file in files:
            shutil.copyfile(file, part / file.name)
            (part / file.name).chmod(0o644)
        part.chmod(0o755)
        try:
            part.rename(target)
        except OSError:
            # Another process was first.
            shutil.rmtree(part, ignore_errors=True)
    return target
