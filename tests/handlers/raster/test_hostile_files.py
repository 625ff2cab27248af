"""Files that nobody should send are refused with their sentence, at once, in little memory; none kills the process."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rmhdag
from rmhdag.handlers import HandlerContext, load_handlers
from rmhdag.handlers.raster_limits import RasterLimits
from rmhdag.handlers.running import Outcome, run_plain
from rmhdag.storage import StorageSettings, open_storage
from tests.conftest import require
from tests.handlers.raster import validating_process
from tests.handlers.raster.hostile_files import FILES, SECRET, Hostile, write_all, write_raster
from tests.handlers.raster.validating_process import Silent

CONTAINER = "in"
VALIDATE, CREATE_COG = "raster.validate", "raster.create_cog"
MUTATIONS = 150
LIBRARIES = (sys.prefix, sys.base_prefix, str(Path(rmhdag.__file__).parent))
KERNEL = ("/proc/", "/sys/fs/cgroup/", os.devnull)
SAFE_VARIABLES = ("PATH", "HOME", "LANG")


def can_trace() -> bool:
    found = shutil.which("strace")
    return found is not None and subprocess.run([found, "-o", os.devnull, "true"], check=False).returncode == 0


def validate_here(root: Path, name: str) -> Outcome:
    spec = load_handlers(["rmhdag.handlers.raster.validate"]).find("raster_validate")
    assert spec is not None
    storage = open_storage(StorageSettings(str(root)), "default")
    params = {"source": {"container": CONTAINER, "path": name}}
    return run_plain(spec, HandlerContext[Any](Silent(), params, open_storage=lambda: storage))


def run_handlers(
    root: Path, names: list[str], handlers: tuple[str, ...] = (VALIDATE,), before: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """What a fresh process made of the files, up to the one that killed it."""
    written = root.parent / "outcomes.json"
    repository = str(Path(__file__).parents[3])
    environment = {name: os.environ[name] for name in SAFE_VARIABLES if name in os.environ}
    ended = subprocess.run(
        [*before, sys.executable, validating_process.__file__, str(root), CONTAINER, str(written)],
        input=json.dumps([handlers, names]),
        capture_output=True,
        text=True,
        cwd=root.parent,
        env={**environment, **RasterLimits().as_variables(), "PYTHONPATH": repository, "TMPDIR": str(root.parent)},
        timeout=100,
        check=False,
    )
    outcomes = [json.loads(line) for line in written.read_text().splitlines()]
    assert ended.returncode == 0, (ended.returncode, ended.stderr[-2000:], outcomes[-1:])
    return outcomes


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "storage"
    write_all(folder / "bronze" / CONTAINER)
    return folder


@pytest.fixture(scope="module")
def outcomes(root: Path) -> dict[str, dict[str, Any]]:
    return {outcome["name"]: outcome for outcome in run_handlers(root, [file.name for file in FILES])}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name[:40])
def test_file_is_refused_with_its_sentence(file: Hostile, outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = outcomes[file.name]
    if file.sentence is None:
        assert outcome["kind"] is None, outcome["message"]
        assert outcome["output"]["crs"] == "EPSG:32633"
        return
    assert outcome["kind"] == "non_retryable", outcome
    assert re.search(file.sentence, outcome["message"]), outcome["message"]
    assert outcome["message"].startswith(f"bronze/{CONTAINER}/{file.name} ")
    assert "/proc/" not in outcome["message"]


def test_no_file_takes_much_memory(outcomes: dict[str, dict[str, Any]]) -> None:
    assert max(outcome["peak_mb"] for outcome in outcomes.values()) < 300


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a\nb.tif", "a control character"),
        ("x" * 256 + ".tif", "more than 255 bytes: shorten it"),
        ("../../etc/passwd", r"an empty segment, `.` or `..`"),
        ("/etc/passwd", r"an empty segment, `.` or `..`"),
        ("a/%2e%2e/b.tif", r"an encoded `.`, `..`, slash, backslash or NUL"),
        ("/vsicurl/http://127.0.0.1:9/x.tif", r"an empty segment, `.` or `..`"),
        ("MEM:::DATAPOINTER=1", "^there is no file bronze/in/MEM:::DATAPOINTER=1: check its name"),
        ("link.tif", "link.tif is a symbolic link, and links are not followed"),
        ("pipe.tif", "^there is no file bronze/in/pipe.tif"),
        ("folder.tif", "^there is no file bronze/in/folder.tif"),
    ],
)
def test_names_that_lead_elsewhere_are_refused(name: str, sentence: str, tmp_path: Path) -> None:
    container = tmp_path / "storage" / "bronze" / CONTAINER
    (container / "folder.tif").mkdir(parents=True)
    (container / "link.tif").symlink_to(SECRET)
    os.mkfifo(container / "pipe.tif")
    outcome = validate_here(tmp_path / "storage", name)
    assert outcome.error_kind == "non_retryable"
    assert re.search(sentence, outcome.error_message or ""), outcome.error_message


def test_damaged_headers_are_refused_and_nothing_worse(tmp_path: Path) -> None:
    """Bytes of sound files changed at random places: whatever comes of it is an answer."""
    container = tmp_path / "storage" / "bronze" / CONTAINER
    container.mkdir(parents=True)
    sound = [
        write_raster(tmp_path / "plain.tif", size=128).read_bytes(),
        write_raster(tmp_path / "cog.tif", size=1024, driver="COG", blocksize=256, compress="deflate").read_bytes(),
        write_raster(tmp_path / "big.tif", size=128, BIGTIFF="YES", tiled=True, nodata=3).read_bytes(),
    ]
    chance = random.Random(5)
    for number in range(MUTATIONS):
        data = bytearray(sound[number % len(sound)])
        # The directories are at the beginning of one and at the end of the others.
        places = [*range(4, 600), *range(len(data) - 600, len(data))]
        for place in chance.sample(places, chance.choice((1, 2, 8))):
            data[place] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
        (container / f"{number}.tif").write_bytes(data)
    outcomes = run_handlers(tmp_path / "storage", [f"{number}.tif" for number in range(MUTATIONS)])
    assert [outcome for outcome in outcomes if outcome["kind"] not in (None, "non_retryable")] == []
    assert {outcome["kind"] for outcome in outcomes} == {None, "non_retryable"}
    assert max(outcome["peak_mb"] for outcome in outcomes) < 400


def test_nothing_outside_the_roots_is_read(root: Path) -> None:
    """The kernel is asked, not the code: no file is opened but these, and nobody is called."""
    require(can_trace(), "strace is not installed, or processes may not be traced here")
    trace = root.parent / "trace"
    outcomes = run_handlers(
        root,
        [file.name for file in FILES],
        (VALIDATE, CREATE_COG),
        (
            "strace",
            "-f",
            "-y",
            "-s",
            "4096",
            "-e",
            "trace=open,openat,openat2,creat,socket,connect,execve",
            "-o",
            str(trace),
        ),
    )
    calls = trace.read_text(errors="replace").splitlines()
    begun = next(number for number, call in enumerate(calls) if "outcomes.json" in call and "O_WRONLY" in call)
    opened = []
    for call in calls[begun:]:
        assert not re.search(r" (socket|connect|execve)\(", call), call
        if found := re.search(
            r" (?:open|openat|openat2|creat)\((?:[^,\"]*<(?P<folder>[^>]*)>, )?\"(?P<name>.*?)\", .*\) = (?P<end>.*)$",
            call,
        ):
            result = re.search(r"^\d+<(.*)>$", found["end"])
            opened.append(result[1] if result else str(Path(found["folder"] or "/", found["name"])))
    ours = [str(root), str(root.parent / "outcomes.json"), str(root.parent / "scratch")]
    allowed = (*ours, "/etc/mime.types", *LIBRARIES, *KERNEL)
    assert [path for path in opened if not path.startswith(allowed)] == []
    processes = {path.split("/")[2] for path in opened if path.startswith("/proc/")}
    assert len(processes - {"self", "meminfo"}) <= 1
    # Something was seen at all, and it was what GDAL opens, too.
    assert sum(path.startswith(str(root)) for path in opened) > len(FILES)
    assert any(path.endswith("proj.db") for path in opened)
    assert len(outcomes) == 2 * len(FILES)
    # Whoever opens rasters gives the same answers: what is damaged is damaged for all.
    assert [outcome for outcome in outcomes if outcome["kind"] == "handler_error"] == []
