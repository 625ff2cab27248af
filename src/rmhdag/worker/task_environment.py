"""What handlers see of the worker's environment: what programs need to run, and what the operator names. No more.

Whatever else a service has in its environment is its own business: the platform's database, keys, tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

SYSTEM = "PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_* TZ TERM PYTHON* VIRTUAL_ENV LD_LIBRARY_PATH PYDANTIC_*"
# Threads and memory of numerical libraries, data files of GDAL and PROJ.
LIBRARIES = "OMP_* OPENBLAS_* MKL_* NUMEXPR_* MALLOC_* GDAL_* CPL_* VSI_* PROJ_*"
# Certificates and proxies; traces that children send; the identity with which blob storage is reached.
NETWORK = (
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy "
    "OTEL_* AWS_* AZURE_* IDENTITY_ENDPOINT IDENTITY_HEADER MSI_ENDPOINT MSI_SECRET"
)
PASSED_ON = (*SYSTEM.split(), *LIBRARIES.split(), *NETWORK.split())


def task_environment(environment: Mapping[str, str], named: Sequence[str]) -> dict[str, str]:
    """`named` are further names, with `*` at the end for all that begin so."""
    patterns = (*PASSED_ON, *named)
    return {
        name: value
        for name, value in environment.items()
        if not belongs_to_platform(name) and any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def belongs_to_platform(name: str) -> bool:
    """What nobody can pass on: a handler that knew the database would be the platform."""
    return name.startswith(("RMHDAG_", "PG", "POSTGIS_")) or name == "DATABASE_URL"
