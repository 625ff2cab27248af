"""The packages that requirements/*.txt pin, and under which licences they are, as far as they are installed here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[1] / "requirements"
PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==(\S+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
# How packages said it before there were licence expressions: whole words first, then beginnings of licence texts.
WORDS = {
    "apache 2.0": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "new bsd": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "isc license": "ISC",
    "mit license": "MIT",
    "mit or afl-2.1": "MIT OR AFL-2.1",
}
# Of licence files, for packages that say nothing else.
TEXTS = {"permission is hereby granted, free of charge, to any person obtaining a copy": "MIT"}
BEGINNINGS = {
    "apache license": "Apache-2.0",
    "bsd 3-clause license": "BSD-3-Clause",
    "copyright (c) 2021, hugo van kemenade": "BSD-3-Clause",
    "mit license": "MIT",
}
CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
LICENCE_FILE = re.compile(r"(?i)(^|/)(licen[cs]e|copying|notice|authors)[^/]*$|\.dist-info/licenses/")


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    hashes: tuple[str, ...]
    # Where packages of another environment are.
    folder: Path | None = None

    @property
    def distribution(self) -> metadata.Distribution | None:
        """None where another system, or another kind of environment, would have it."""
        try:
            if self.folder is None:
                found = metadata.distribution(self.name)
            else:
                found = next(iter(metadata.distributions(name=self.name, path=[str(self.folder)])))
        except (metadata.PackageNotFoundError, StopIteration):
            return None
        return found if found.version == self.version else None


def pinned(*kinds: str, folder: Path | None = None) -> list[Package]:
    found = {}
    for kind in kinds:
        for block in re.split(r"\n(?=\S)", (REQUIREMENTS / f"{kind}.txt").read_text(encoding="utf-8")):
            pin = PIN.match(block)
            if pin is not None:
                found[pin[1]] = Package(pin[1], pin[2], tuple(HASH.findall(block)), folder)
    return sorted(found.values(), key=lambda package: package.name)


def licence_of(distribution: metadata.Distribution) -> str:
    """An SPDX expression; empty if the package does not say."""
    about = distribution.metadata
    if "License-Expression" in about:
        return about["License-Expression"]
    text = " ".join(about["License"].split()) if "License" in about else ""
    if re.fullmatch(r"[A-Za-z0-9.+-]+(-[A-Za-z0-9.+]+)+|MIT|ISC", text):
        return text
    told = WORDS.get(text.lower()) or next(
        (name for begin, name in BEGINNINGS.items() if text.lower().startswith(begin)), ""
    )
    if told:
        return told
    classified = [
        CLASSIFIERS[name]
        for line in about.get_all("Classifier") or []
        if line.startswith("License ::") and (name := line.rpartition(" :: ")[2]) in CLASSIFIERS
    ]
    if classified:
        return " AND ".join(dict.fromkeys(classified))
    texts = [" ".join(text.split()).lower() for _, text in licence_texts(distribution)]
    return next((name for begin, name in TEXTS.items() if any(text.startswith(begin) for text in texts)), "")


def licence_texts(distribution: metadata.Distribution) -> list[tuple[str, str]]:
    """The licence files that a package contains."""
    found = []
    for file in distribution.files or []:
        if LICENCE_FILE.search(str(file)) and ".dist-info" in str(file):
            path = Path(str(distribution.locate_file(file)))
            if path.is_file():
                found.append((path.name, path.read_text(encoding="utf-8", errors="replace").strip()))
    return found
