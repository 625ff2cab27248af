"""Known vulnerabilities of all pinned packages, as pip-audit finds them: 1 if there are some that are not allowed for a
reason, 0 if there are none or no database can be reached."""

from __future__ import annotations

import os
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import Version
from pip_audit._service import ResolvedDependency, VulnerabilityResult, VulnerabilityService

from scripts.audit_databases import Answer, Database, reachable_database
from scripts.third_party import PIN

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = ROOT / "requirements" / "audit-allowed.toml"
# For all packages together. They take seconds where the database is near.
AUDIT_SECONDS = 300


@dataclass
class Report:
    """Of one audit; filled by a thread that may still be at it when time is up."""

    answered: int = 0
    unknown: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)


def main() -> int:
    files = [Path(name) for name in sys.argv[1:]] or pinned_files()
    try:
        reasons = read_allowed(Path(os.environ.get("AUDIT_ALLOWED", ALLOWED)))
    except ValueError as error:
        print(f"audit: {error}", file=sys.stderr)
        return 2
    # Kept for this audit only: a database is asked for what it knows today.
    with tempfile.TemporaryDirectory(prefix="rmhdag-audit-", ignore_cleanup_errors=True) as cache:
        database, refusals = reachable_database(os.environ, Path(cache))
        if database is None:
            print(f"nothing was audited: no database of vulnerabilities is reachable ({refusals})")
            return 0
        return audit(database, files, reasons)


def audit(database: Database, files: list[Path], reasons: dict[tuple[str, str], str]) -> int:
    packages = pinned_packages(files)
    report = Report()
    answer = Answer(lambda: ask_all(database.service, packages, reasons, report))
    trouble = answer.within(AUDIT_SECONDS, otherwise=f"no answer within {AUDIT_SECONDS} s")
    for line in report.problems:
        print(line, file=sys.stderr)
    for line in report.allowed:
        print(line)
    if report.unknown:
        print(f"not audited, because {database.name} does not know them: {', '.join(report.unknown)}")
    if trouble:
        print(f"the audit broke off after {report.answered} of {len(packages)} packages: {trouble}")
    counted = report.answered - len(report.unknown)
    print(f"{counted} of {len(packages)} packages audited at {database.name}: {len(report.problems)} vulnerabilities")
    return 1 if report.problems else 0


def pinned_files() -> list[Path]:
    return [*sorted((ROOT / "requirements").glob("*.txt")), ROOT / "deploy/function/requirements-function.txt"]


def pinned_packages(files: Iterable[Path]) -> dict[tuple[str, str], list[str]]:
    """The files that pin each (name, version)."""
    found: dict[tuple[str, str], list[str]] = {}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            pin = PIN.match(line)
            if pin is not None:
                found.setdefault((pin[1].lower(), pin[2]), []).append(file.name)
    return dict(sorted(found.items()))


def ask_all(
    service: VulnerabilityService,
    packages: dict[tuple[str, str], list[str]],
    reasons: dict[tuple[str, str], str],
    report: Report,
) -> str:
    for (name, version), files in packages.items():
        dependency, vulnerabilities = service.query(ResolvedDependency(name, Version(version)))
        report.answered += 1
        if dependency.is_skipped():
            report.unknown.append(name)
        for vulnerability in vulnerabilities:
            judge(f"{name} {version} ({', '.join(files)})", name, vulnerability, reasons, report)
    return ""


def judge(
    place: str, name: str, vulnerability: VulnerabilityResult, reasons: dict[tuple[str, str], str], report: Report
) -> None:
    names = [vulnerability.id, *sorted(vulnerability.aliases)]
    reason = next((reasons[name, one] for one in names if (name, one) in reasons), None)
    if reason is not None:
        report.allowed.append(f"{place}: {vulnerability.id}, allowed: {reason}")
        return
    fixed = ", ".join(map(str, vulnerability.fix_versions))
    remedy = f"fixed in {fixed}" if fixed else "not fixed in any version yet"
    report.problems.append(f"{place}: {' = '.join(names)}, {remedy}: {vulnerability.description[:200]}")


def read_allowed(file: Path) -> dict[tuple[str, str], str]:
    """The reason for each (package, id)."""
    found = {}
    for entry in tomllib.loads(file.read_text(encoding="utf-8")).get("allowed", []):
        if set(entry) != {"package", "id", "reason"} or not all(str(value).strip() for value in entry.values()):
            raise ValueError(f"{file.name}: each [[allowed]] has package, id and reason, not {entry}")
        found[entry["package"].lower(), entry["id"]] = entry["reason"]
    return found


if __name__ == "__main__":
    sys.exit(main())
