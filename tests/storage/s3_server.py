"""A real HTTP server that speaks S3 (moto's), started on a free port and kept in memory."""

import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import require
from tests.pinned_folders import pinned_folder

S3_OPTIONS = {"aws_access_key_id": "somebody", "aws_secret_access_key": "kept-secret", "aws_region": "us-east-1"}


# moto looks whether an object exists and then writes it, in threads that it does not lock against each other: of two
# writers with `if_absent` both could be first, which S3 excludes. So it answers one request after the other.
ONE_AT_A_TIME = """
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

application = DomainDispatcherApplication(create_backend_app)
turn = threading.Lock()


def answer(environ, start_response):
    with turn:
        return list(application(environ, start_response))


run_simple("127.0.0.1", 0, answer, threaded=True)
"""


def find_moto() -> Path | None:
    """Where scripts/setup has put it, in an environment of its own."""
    python = pinned_folder("s3", "s3-server.txt") / "ready" / "bin" / "python"
    return python if python.is_file() else None


@contextmanager
def running_s3() -> Iterator[str]:
    """The endpoint."""
    python = find_moto()
    require(python, "moto's S3 server is not installed: scripts/setup dev does it")
    command = [str(python), "-u", "-c", ONE_AT_A_TIME]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield _listening_at(process)
    finally:
        process.kill()
        process.communicate()


def _listening_at(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "Running on " in line:
            return line.split("Running on ")[1].split()[0]
    raise AssertionError(f"the S3 server did not start:\n{said}")


def create_bucket(endpoint: str, name: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(f"{endpoint}/{name}", method="PUT")
    request.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=somebody/20260101/us-east-1/s3/aws4_request")
    opener.open(request, timeout=30).close()
