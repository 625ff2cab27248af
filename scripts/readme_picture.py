"""The first picture of the README: the workflow that `./run` shows, beside what it has made of the sample."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from rmhdag.cli.tables import show_bytes

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
WORKFLOW = ROOT / "src" / "rmhdag" / "workflows" / "raster_processing.yaml"
HEIGHT, GAP, SIDE = 560, 36, 400
STYLE = (
    ".first{font:400 14px system-ui,'Segoe UI',Roboto,Helvetica,Arial,'DejaVu Sans',sans-serif;fill:#24292f}"
    ".first .name{font-weight:600}"
    "@media (prefers-color-scheme:dark){.first{fill:#e6edf3}}"
)


def rmhdag(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rmhdag.cli", *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def run_demo(home: Path) -> tuple[dict[str, Any], bytes]:
    """What the demo tells as JSON, and the thumbnail."""
    with subprocess.Popen(
        [sys.executable, "-m", "rmhdag.cli", "up", "--json"],
        env=os.environ | {"RMHDAG_HOME": str(home), "RMHDAG_API_PORT": "0"},
        stdout=subprocess.PIPE,
        text=True,
    ) as up:
        assert up.stdout is not None
        storage = Path(json.loads(up.stdout.readline())["storage"])
        try:
            told = json.loads(rmhdag("demo", "--json", RMHDAG_HOME=str(home)))
        finally:
            up.terminate()
    thumbnail = told["thumbnail"]
    return told, (storage / thumbnail["zone"] / thumbnail["container"] / thumbnail["path"]).read_bytes()


def compose(graph: str, told: dict[str, Any], picture: bytes) -> str:
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', graph)
    assert size is not None
    width = round(int(size[1]) * HEIGHT / int(size[2]))
    drawn = re.sub(r'width="\d+" height="\d+"', f'width="{width}" height="{HEIGHT}"', graph, count=1)
    item, asset = told["item"], told["asset"]
    lines = [
        ("COG", f"{show_bytes(told['cog']['size_bytes'])}, overviews {', '.join(map(str, told['cog']['overviews']))}"),
        ("STAC item", f"{item['collection']}/{item['id']}, {item['properties']['datetime']}"),
        ("thumbnail", f"{show_bytes(told['thumbnail']['size_bytes'])}, above"),
        ("asset", f"revision {asset['revision']}, content {asset['content_hash'][:16]}"),
    ]
    left = width + GAP
    words = [
        f'<text x="{left}" y="{SIDE + 44 + number * 28}"><tspan class="name">{escape(name)}</tspan>'
        f'<tspan x="{left + 88}">{escape(text)}</tspan></text>'
        for number, (name, text) in enumerate(lines)
    ]
    whole = f'width="{left + SIDE}" height="{HEIGHT}" viewBox="0 0 {left + SIDE} {HEIGHT}"'
    data = base64.b64encode(picture).decode()
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {whole} class="first">',
            f"<style>{STYLE}</style>",
            drawn,
            f'<image x="{left}" y="8" width="{SIDE}" height="{SIDE}" href="data:image/webp;base64,{data}"/>',
            *words,
            "</svg>\n",
        ]
    )


def main() -> None:
    for name in ("raster_processing", "fan_out_test"):
        rmhdag("graph", str(WORKFLOW.with_name(f"{name}.yaml")), "--svg", "-o", str(IMAGES / f"{name}.svg"))
    home = Path(tempfile.mkdtemp(prefix="rmhdag-picture-"))
    home.chmod(0o755)
    try:
        told, picture = run_demo(home / "data")
    finally:
        shutil.rmtree(home, ignore_errors=True)
    graph = (IMAGES / "raster_processing.svg").read_text(encoding="utf-8")
    (IMAGES / "first-run.svg").write_text(compose(graph, told, picture), encoding="utf-8")


if __name__ == "__main__":
    main()
