"""The bill of materials of what runs (core and geo), and the notices that go with it.

The components come from the pinned requirements, so their hashes are those that are checked when they are installed.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from scripts.third_party import Package, licence_of, licence_texts, pinned

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("core", "geo")
RULE = "=" * 100


def main(folder: Path) -> None:
    packages = pinned(*KINDS)
    folder.mkdir(parents=True, exist_ok=True)
    bill, notices = folder / "sbom.cdx.json", folder / "THIRD-PARTY-NOTICES.txt"
    bill.write_text(JsonV1Dot6(make_bill(packages)).output_as_string(indent=2) + "\n", encoding="utf-8")
    notices.write_text(make_notices(packages), encoding="utf-8")
    print(f"{len(packages)} packages: {bill}, {notices}")


def make_bill(packages: list[Package]) -> Bom:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    licences = LicenseFactory()
    root = Component(
        name=project["name"],
        version=project["version"],
        type=ComponentType.APPLICATION,
        bom_ref=project["name"],
        licenses=[licences.make_from_string(project["license"])],
    )
    bill = Bom()
    bill.metadata.component = root
    components = [make_component(package, licences) for package in packages]
    bill.components.update(components)
    bill.register_dependency(root, components)
    return bill


def make_component(package: Package, licences: LicenseFactory) -> Component:
    distribution = package.distribution
    expression = "" if distribution is None else licence_of(distribution)
    address = PackageURL("pypi", name=package.name, version=package.version)
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        bom_ref=address.to_string(),
        purl=address,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in package.hashes],
        licenses=[licences.make_from_string(expression)] if expression else [],
    )


def make_notices(packages: list[Package]) -> str:
    parts = ["rmhdag uses the packages below. Each is under its own licence, whose text follows its name.\n"]
    for package in packages:
        distribution = package.distribution
        licence = "" if distribution is None else licence_of(distribution)
        parts.append(f"{RULE}\n{package.name} {package.version}  {licence}\n{RULE}\n")
        texts = [] if distribution is None else licence_texts(distribution)
        parts += [f"--- {name}\n{text}\n" for name, text in texts] or ["(the package brings no text of its licence)\n"]
    return "\n".join(parts)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build")
