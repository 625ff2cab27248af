"""A process like a worker's child, with little memory and time: it validates files and writes down what came of it.

Its arguments: the root of storage, the container and the file for the outcomes; handlers and names of files come as
JSON on standard input.
"""

import json
import resource
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

from tests.memory import peak_mb

MEMORY_BYTES = 700 * 1024 * 1024
CPU_SECONDS = 60


class Silent:
    def log(self, text: str) -> None: ...

    def progress(self, current: float, total: float | None, message: str | None) -> None: ...

    def checkpoint(self, phase: str, data: Any) -> None: ...

    def stop_reason(self) -> None:
        return None


def main() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    from rmhdag.handlers import HandlerContext, load_handlers
    from rmhdag.handlers.running import run_plain
    from rmhdag.storage import StorageSettings, open_storage

    root, container, written = sys.argv[1:]
    handlers, names = json.load(sys.stdin)
    registry = load_handlers(["rmhdag.handlers.raster.validate", "rmhdag.handlers.raster.cog"])
    storage = open_storage(StorageSettings(root), "default")
    with Path(written).open("w") as outcomes:
        for handler, name in product(handlers, names):
            spec = registry.find(handler)
            assert spec is not None
            params = {"container_name": container, "blob_name": name}
            scratch = Path(written).with_name("scratch")
            began = time.process_time()
            context = HandlerContext[Any](Silent(), params, open_storage=lambda: storage, scratch=scratch)
            outcome = run_plain(spec, context)
            line = {
                "handler": handler,
                "name": name,
                "kind": outcome.error_kind,
                "message": outcome.error_message,
                "output": None if outcome.output is None else json.loads(outcome.output),
                "cpu_seconds": time.process_time() - began,
                "peak_mb": peak_mb(),
            }
            outcomes.write(json.dumps(line) + "\n")
            outcomes.flush()


if __name__ == "__main__":
    main()
