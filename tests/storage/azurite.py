"""A real Azurite (Microsoft's emulator of Azure Blob Storage), started on a free port and kept in memory."""

import base64
import hashlib
import hmac
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from tests.conftest import require
from tests.pinned_folders import pinned_folder

ACCOUNT = "devstoreaccount1"
# Published by Microsoft for every emulator there is.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
MAIN = "node_modules/azurite/dist/src/blob/main.js"


def find_azurite() -> Path | None:
    """Where scripts/setup has put it."""
    main = pinned_folder("azurite", "azurite/package-lock.json") / MAIN
    return main if main.is_file() else None


@contextmanager
def running_azurite() -> Iterator[str]:
    """The endpoint of the account."""
    node, main = shutil.which("node"), find_azurite()
    require(node and main, "Azurite is not installed: scripts/setup dev does it, with Debian's npm or another")
    command = [str(node), str(main), "--blobPort", "0", "--inMemoryPersistence", "--skipApiVersionCheck", "--silent"]
    process = subprocess.Popen(
        [*command, "--disableTelemetry"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield f"{_listening_at(process)}/{ACCOUNT}"
    finally:
        process.kill()
        process.communicate()


def _listening_at(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if "successfully listens on " in line:
            return line.split("successfully listens on ")[1].strip()
    raise AssertionError(f"Azurite did not start:\n{said}")


def create_container(endpoint: str, name: str) -> None:
    """Signed by hand: obstore works inside of containers only."""
    date, version = formatdate(usegmt=True), "2021-08-06"
    resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{version}\n{resource}"
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
    request = urllib.request.Request(f"{endpoint}/{name}?restype=container", method="PUT")
    request.add_header("x-ms-date", date)
    request.add_header("x-ms-version", version)
    request.add_header("Authorization", f"SharedKey {ACCOUNT}:{signature}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(request, timeout=30).close()
