"""Environment variables that handlers see: those that programs need to run, and those that the operator names.

All others stay with the worker: the platform's database, keys and tokens.
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
    """`named` are additional names; a `*` at the end stands for any rest."""
    patterns = (*PASSED_ON, *named)
    return {
        name: value
        for name, value in environment.items()
        if not belongs_to_platform(name) and any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def belongs_to_platform(name: str) -> bool:
    """Variables that are never passed on: with the platform's credentials, a handler could do anything."""
    return name.startswith(("RMHDAG_", "PG", "POSTGIS_")) or name == "DATABASE_URL"
