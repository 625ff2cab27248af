"""What comes with rmhdag: under which licences, from where, and written down."""

import json
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from scripts.licences import ALLOWED, KINDS, is_allowed
from scripts.sbom import main as write_bill
from scripts.third_party import licence_of, pinned

ROOT = Path(__file__).resolve().parents[2]


def test_rmhdag_has_a_licence_itself() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_licences_of_all_packages_are_known_and_allowed() -> None:
    done = subprocess.run(["scripts/licences"], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "0 problems" in done.stdout


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only", False),
        ("GPL-2.0-or-later WITH Classpath-exception-2.0", False),
        ("AGPL-3.0-or-later", False),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("Proprietary-Thing", False),
        ("MIT AND", False),
    ],
)
def test_expressions_are_judged_as_a_whole(expression: str, allowed: bool) -> None:
    assert is_allowed(expression) == allowed


def test_nothing_under_the_gpl_is_allowed_or_pinned() -> None:
    assert not any(name.startswith(("GPL", "AGPL")) for name in ALLOWED)
    assert "plpygis" not in {package.name for package in pinned(*KINDS, "pgstac", "services")}
    assert licence_of(metadata.distribution("psycopg")) == "LGPL-3.0-only"


def test_the_bill_of_materials_names_every_package_that_runs(tmp_path: Path) -> None:
    write_bill(tmp_path)
    bill = json.loads((tmp_path / "sbom.cdx.json").read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "rmhdag")
    wanted = {f"pkg:pypi/{package.name}@{package.version}" for package in pinned("core", "geo")}
    assert {component["purl"] for component in bill["components"]} == wanted
    for component in bill["components"]:
        assert component["hashes"], component["name"]
        assert component["licenses"], component["name"]
    notices = (tmp_path / "THIRD-PARTY-NOTICES.txt").read_text()
    assert "psycopg 3" in notices
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in notices


def test_azurite_is_locked_by_hash_and_names_no_registry() -> None:
    text = (ROOT / "requirements" / "azurite" / "package-lock.json").read_text()
    packages = json.loads(text)["packages"]
    locked = {name: entry for name, entry in packages.items() if name and not entry.get("link")}
    assert "node_modules/azurite" in locked
    assert all(entry["integrity"].startswith("sha512-") for entry in locked.values())
    assert '"resolved"' not in text
    assert "npm ci " in (ROOT / "scripts" / "setup").read_text()


def test_the_environment_has_no_old_installers() -> None:
    pins = {package.name: package.version for package in pinned("bootstrap")}
    assert metadata.version("pip") == pins["pip"]
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version("setuptools")


def test_every_check_that_bandit_leaves_out_has_a_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text().split("[tool.bandit]", 1)[1].split("]", 1)[0]
    lines = [line for line in text.splitlines() if '"B' in line]
    assert lines
    assert all("# " in line for line in lines)
