"""Measures the size of the gateway as a function, its import, and `rmhdag gateway` until its first answer."""

from __future__ import annotations

import http.client
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

MOST_MEGABYTES = 60
MOST_SECONDS = 1.5
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.005
HERE = Path(__file__).parent


def plain_environment(**more: str) -> dict[str, str]:
    """Without our settings. With the variable for bytecode, each start would compile our own files again."""
    left_out = ("RMHDAG_", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)} | more


def built(folder: Path) -> int:
    """The size in MB."""
    done = subprocess.run([HERE / "build-function", folder], check=True, stdout=subprocess.PIPE)
    return int(done.stdout)


def import_function(folder: Path) -> float:
    """Seconds of a new interpreter that imports the function as the host does: from a folder that it cannot write."""
    packages = folder / ".python_packages" / "lib" / "site-packages"
    environment = plain_environment(PYTHONPATH=f"{folder}{os.pathsep}{packages}", PYTHONDONTWRITEBYTECODE="1")
    began = time.monotonic()
    subprocess.run([sys.executable, "-S", "-c", "import function_app"], check=True, env=environment, cwd=folder)
    return time.monotonic() - began


def start_gateway(home: Path) -> float:
    """Seconds until it answers. It needs neither a database nor an API for that."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = plain_environment(RMHDAG_HOME=str(home), RMHDAG_GATEWAY_PORT=str(port))
    began = time.monotonic()
    command = [sys.executable, "-m", "rmhdag.cli", "gateway"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            while not answers(port):
                if time.monotonic() - began > PATIENCE_SECONDS or process.poll() is not None:
                    sys.exit("the gateway did not start")
                time.sleep(LOOK_SECONDS)
            return time.monotonic() - began
        finally:
            process.terminate()


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()


def medians_of(runs: int, measure: Callable[[], float]) -> tuple[float, float]:
    """Seconds of wall time, and of processor time, which says more on a busy machine. The first run warms up."""
    measure()
    walls, shares = [], []
    for _ in range(runs):
        before = processor_seconds()
        walls.append(measure())
        shares.append(processor_seconds() - before)
    return statistics.median(walls), statistics.median(shares)


def processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main(runs: int) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "function"
        size = built(folder)
        imports = medians_of(runs, lambda: import_function(folder))
        starts = medians_of(runs, lambda: start_gateway(Path(name) / "home"))
    print(f"size {size} MB (at most {MOST_MEGABYTES})")
    for what, (wall, processor) in (("import of the function", imports), ("rmhdag gateway", starts)):
        print(f"{what}: {wall:.2f} s (at most {MOST_SECONDS}), of which {processor:.2f} s of processor time; medians")
    return int(size > MOST_MEGABYTES or max(imports[0], starts[0]) > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
