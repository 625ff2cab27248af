"""Known vulnerabilities of the pinned packages: 1 if there are some, 0 if there are none or nobody could be asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("core", "geo", "dev")


def main() -> int:
    if os.environ.get("AUDIT") != "1":
        print("not asked for: AUDIT=1 asks a database of vulnerabilities on the network")
        return 0
    results = [audit(kind) for kind in KINDS]
    return max(results)


def audit(kind: str) -> int:
    program = os.environ.get("PIP_AUDIT", str(Path(sys.executable).with_name("pip-audit")))
    file = ROOT / "requirements" / f"{kind}.txt"
    command = [program, "--disable-pip", "--require-hashes", "--progress-spinner=off", "--format=json"]
    done = subprocess.run([*command, f"--requirement={file}"], capture_output=True, text=True)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(f"{file.name}: nothing was audited: no database could be asked: {done.stderr.strip()[-300:]}")
        return 0
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if len(skipped) == len(packages):
        # A mirror that hands out packages may know nothing of their vulnerabilities.
        print(f"{file.name}: nothing was audited: the database that was asked knows none of {len(packages)} packages")
        return 0
    if skipped:
        print(f"{file.name}: not audited: {', '.join(skipped)}")
    found = [(package, one) for package in packages for one in package.get("vulns", [])]
    for package, one in found:
        repaired = ", ".join(one.get("fix_versions", [])) or "no version yet"
        print(
            f"{file.name}: {package['name']} {package['version']}: {one['id']}, repaired in {repaired}", file=sys.stderr
        )
    print(f"{file.name}: {len(packages) - len(skipped)} packages, {len(found)} known vulnerabilities")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
