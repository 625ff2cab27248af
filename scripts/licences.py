"""Whether the licences of all pinned packages allow what is done with them; ends with 1 if one does not.

Packages of other systems, which are not installed here, are named and not judged.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from license_expression import ExpressionError, get_spdx_licensing

from rmhdag.serving.environment import environment_folder
from scripts.third_party import Package, licence_of, pinned

KINDS = ("bootstrap", "core", "geo", "dev", "build")
# For the LGPL: psycopg is a library of its own that anybody may replace, and is passed on with its notice.
ALLOWED = frozenset(
    {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "LGPL-3.0-only", "MIT", "MIT-0"}
    | {"MIT-CMU", "MPL-2.0", "PSF-2.0", "Unlicense", "Zlib"}
)


def main() -> int:
    packages = [*pinned(*KINDS), *pinned("services", folder=services_folder())]
    problems = [problem for package in packages if (problem := problem_of(package))]
    absent = [package.name for package in packages if package.distribution is None]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"licences of {len(packages) - len(absent)} packages: {len(problems)} problems")
    if absent:
        print(f"not installed here, so not judged: {', '.join(absent)}")
    return 1 if problems else 0


def services_folder() -> Path:
    """The packages of the environment of `rmhdag serve`; a folder that does not exist if it is not installed."""
    return next(environment_folder().glob("ready/lib/python3*/site-packages"), environment_folder() / "missing")


def problem_of(package: Package) -> str | None:
    distribution = package.distribution
    if distribution is None:
        return None
    expression = licence_of(distribution)
    if not expression:
        return f"{package.name} {package.version} does not say its licence: find it out, or leave the package out"
    if not is_allowed(expression):
        return f"{package.name} {package.version} is under {expression}, which is not allowed: replace the package"
    return None


def is_allowed(expression: str) -> bool:
    """Of alternatives one suffices; of what holds together, everything must be allowed."""
    try:
        return judge(get_spdx_licensing().parse(expression))
    except ExpressionError:
        return False


def judge(tree: object) -> bool:
    parts: tuple[object, ...] = getattr(tree, "args", ())
    if parts:
        combine: Callable[[list[bool]], bool] = any if type(tree).__name__ == "OR" else all
        return combine([judge(part) for part in parts])
    return getattr(tree, "key", "") in ALLOWED


if __name__ == "__main__":
    sys.exit(main())
