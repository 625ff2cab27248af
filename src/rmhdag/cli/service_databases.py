"""Which services have a database to serve from, with which role; and why the others have none."""

from __future__ import annotations

from urllib.parse import quote, urlsplit, urlunsplit

import psycopg

from rmhdag.cli.checks import Finding, judge
from rmhdag.cli.output import mask_url
from rmhdag.cli.settings import Settings
from rmhdag.embedded import EmbeddedPostgres, ExternalServer
from rmhdag.serving.environment import find_python
from rmhdag.serving.roles import (
    SCHEMAS,
    RoleRefused,
    check_role,
    give_password,
    make_role,
    missing_parts,
    service_roles,
)
from rmhdag.serving.service_kinds import Service

CONNECT_SECONDS = 10
WANTED = "installed, with roles that only read, if `rmhdag serve` is used"
VARIABLES = {Service.STAC: "RMHDAG_STAC_DATABASE_URL", Service.FEATURES: "RMHDAG_FEATURES_DATABASE_URL"}


def service_databases(
    server: ExternalServer | EmbeddedPostgres, settings: Settings
) -> tuple[dict[Service, str], dict[Service, str]]:
    """DSNs by service, and reasons by service. On the embedded server the roles are made; in other databases an
    administrator has made them. Raises RoleRefused for a role that could do more than read.
    """
    named = named_urls(settings)
    dsns: dict[Service, str] = {}
    reasons: dict[Service, str] = {}
    for service in SCHEMAS:
        if service in named:
            dsn = named[service]
        elif isinstance(server, EmbeddedPostgres):
            with psycopg.connect(server.owner_dsn(), autocommit=True, connect_timeout=CONNECT_SECONDS) as conn:
                reason = missing_parts(conn).get(service)
                if reason is not None:
                    reasons[service] = reason
                    continue
                role = service_roles().of(service)
                make_role(conn, service, service_roles())
                dsn = as_role(server.owner_dsn(), role, give_password(conn, role))
        else:
            reasons[service] = f"{VARIABLES[service]} is not set; `rmhdag db roles --services` creates its role"
            continue
        reason = find_reason(service, dsn)
        if reason is None:
            dsns[service] = dsn
        else:
            reasons[service] = reason
    return dsns, reasons


def named_urls(settings: Settings) -> dict[Service, str]:
    urls = {Service.STAC: settings.stac_database_url, Service.FEATURES: settings.features_database_url}
    return {service: url.get_secret_value() for service, url in urls.items() if url is not None}


def find_reason(service: Service, dsn: str) -> str | None:
    """Why it cannot be served from there; None if it can. Raises RoleRefused."""
    try:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=CONNECT_SECONDS) as conn:
            reason = missing_parts(conn).get(service)
            if reason is None:
                check_role(conn, service)
            return reason
    except psycopg.OperationalError as error:
        return f"its database cannot be reached: {mask_url(' '.join(str(error).split()))}"


def as_role(dsn: str, role: str, password: str) -> str:
    parts = urlsplit(dsn)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{quote(role, safe='')}:{quote(password, safe='')}@{place}"))


def check_services(settings: Settings) -> Finding:
    """For `rmhdag doctor`: whether `rmhdag serve` would start, with roles that can do nothing but read."""
    installed = find_python() is not None
    for service, dsn in named_urls(settings).items():
        try:
            fault = find_reason(service, dsn)
        except RoleRefused as error:
            return Finding("services", "failed", str(error), WANTED, "Run `rmhdag db roles --services`.")
        if fault is not None:
            return Finding("services", "failed", f"/{service}: {fault}", WANTED, f"Correct {VARIABLES[service]}.")
    is_used = bool(named_urls(settings)) or settings.serve_public_url is not None
    value = "installed" if installed else "not installed (only `rmhdag serve` needs them)"
    return Finding(
        "services", judge(installed or not is_used, "warning"), value, WANTED, "Run `rmhdag serve --install`."
    )
