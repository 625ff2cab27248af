"""`python -m rmhdag.api.openapi_document` prints the OpenAPI document without a server, to make types of."""

from __future__ import annotations

import json
import sys

from rmhdag.api.application import build
from rmhdag.api.context import ApiSettings


def main() -> None:
    app = build(ApiSettings(dsn="postgresql:///", check_processes=None))
    json.dump(app.openapi(), sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
