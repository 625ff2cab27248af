"""The checks of `rmhdag doctor`, one function each. A check never raises: what it cannot find out is its finding."""

from __future__ import annotations

import locale
import platform
import re
import shutil
import socket
import sys
from importlib import metadata
from typing import Literal, NamedTuple

from rmhdag.cli.settings import Loaded, Settings

GIB = 2**30
MIN_PYTHON = (3, 11)
MIN_FREE_BYTES = GIB // 4
WANTED_FREE_BYTES = 2 * GIB


class Finding(NamedTuple):
    name: str
    status: Literal["ok", "warning", "failed"]
    value: str
    threshold: str = ""
    remedy: str = ""


def examine(loaded: Loaded) -> list[Finding]:
    from rmhdag.cli.database_checks import check_database
    from rmhdag.cli.service_databases import check_services
    from rmhdag.cli.storage_checks import check_storage

    return [
        check_python(),
        check_packages(),
        check_geo(),
        check_encoding(),
        check_settings(loaded),
        check_retention(loaded.settings),
        check_disk(loaded.settings),
        check_storage(loaded.settings),
        check_services(loaded.settings),
        check_loopback(),
        *check_database(loaded.settings),
    ]


def judge(good: bool, otherwise: Literal["warning", "failed"] = "failed") -> Literal["ok", "warning", "failed"]:
    return "ok" if good else otherwise


def check_python() -> Finding:
    least = ".".join(map(str, MIN_PYTHON))
    return Finding(
        "python",
        judge(sys.version_info >= MIN_PYTHON),
        f"{platform.python_version()} ({sys.executable})",
        f"{least} or newer",
        f"Install Python {least} or newer and create the environment again.",
    )


def check_packages() -> Finding:
    try:
        requirements = [line for line in metadata.requires("rmhdag") or [] if "extra ==" not in line]
    except metadata.PackageNotFoundError:
        return Finding(
            "packages", "failed", "rmhdag is not installed", "installed", "Run scripts/setup, or pip install rmhdag."
        )
    wrong = [problem for line in requirements if (problem := find_fault(line))]
    return Finding(
        "packages",
        judge(not wrong),
        "; ".join(wrong) or f"{len(requirements)} as required",
        "as pinned by rmhdag",
        "Run scripts/setup, or pip install --upgrade rmhdag.",
    )


def check_geo() -> Finding:
    """Without them everything runs but the handlers for rasters: those are for machines that have them."""
    try:
        requirements = metadata.requires("rmhdag") or []
    except metadata.PackageNotFoundError:
        requirements = []
    return judge_geo([line for line in requirements if re.search(r"extra == .geo.", line)])


def judge_geo(requirements: list[str]) -> Finding:
    wrong = [problem for line in requirements if (problem := find_fault(line))]
    none = len(wrong) == len(requirements)
    value = "; ".join(wrong) or f"{len(requirements)} libraries as required"
    return Finding(
        "rasters",
        judge(not wrong and not none, "warning" if none else "failed"),
        "the geospatial libraries are not installed" if none else value,
        "the extra geo, where raster handlers run",
        "Run scripts/setup geo, or pip install 'rmhdag[geo]'.",
    )


def find_fault(requirement: str) -> str:
    """What is wrong with an installed package, or nothing. Only `>=` and `==` occur in our requirements."""
    name = re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]
    try:
        installed = metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"{name} is missing"
    for sign, version in re.findall(r"(>=|==)\s*([\w.]+)", requirement):
        if sign == "==" and installed != version:
            return f"{name} is {installed}, not {version}"
        if sign == ">=" and numbers(installed) < numbers(version):
            return f"{name} is {installed}, older than {version}"
    return ""


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def check_encoding() -> Finding:
    encodings = {locale.getpreferredencoding(False), sys.getfilesystemencoding()}
    good = all(name.lower().replace("-", "") == "utf8" for name in encodings)
    return Finding(
        "encoding", judge(good, "warning"), ", ".join(sorted(encodings)), "UTF-8", "Set LC_ALL=C.UTF-8 or PYTHONUTF8=1."
    )


def check_settings(loaded: Loaded) -> Finding:
    settings_count = sum(origin != "default" for origin in loaded.origins.values())
    return Finding(
        "settings",
        judge(not loaded.warnings, "warning"),
        "; ".join(loaded.warnings) or f"{settings_count} given, the others by default",
        "",
        "Correct the name or unset it; `rmhdag config show` lists all settings.",
    )


def check_retention(settings: Settings) -> Finding:
    days = settings.retention_days
    return Finding(
        "retention",
        judge(days >= 1, "warning"),
        f"days: {days:g} for finished jobs, {settings.retention_history_days:g} for history,"
        f" {settings.retention_payload_days:g} for unused payloads",
        "jobs for a day at least",
        "Less than a day is for tests: set RMHDAG_RETENTION_DAYS to 1 or more.",
    )


def check_disk(settings: Settings) -> Finding:
    from rmhdag.cli.server import data_folder

    folder = data_folder(settings)
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    return Finding(
        "disk",
        judge(free >= WANTED_FREE_BYTES, "warning" if free >= MIN_FREE_BYTES else "failed"),
        f"{free / GIB:.1f} GiB free at {place}",
        f"{WANTED_FREE_BYTES / GIB:.0f} GiB",
        "Free some space, or set RMHDAG_HOME to another data folder.",
    )


def check_loopback() -> Finding:
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return Finding("ports", "ok", "127.0.0.1 has free ports")
    except OSError as error:
        return Finding("ports", "failed", f"127.0.0.1: {error.strerror}", "a free port", "Enable the loopback device.")
