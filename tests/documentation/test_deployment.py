"""What is shipped for production is true: each command, option, setting and file that it names exists."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from rmhdag.cli.app import build_app
from rmhdag.cli.settings import Settings, variables_of

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PROGRAM = "/opt/rmhdag/bin/rmhdag"
VARIABLES = {variable for name in Settings.model_fields for variable in variables_of(name)}
# Not ours: of PostgreSQL's image, of the shell and of Python.
FOREIGN = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD", "PATH", "PYTHONPATH"}
# Of the page only what looks like a setting; its SQL and its prose have other words in capitals.
OF_THE_PAGE = re.compile(r"\b(?:RMHDAG_\w+|[A-Z]+(?:_[A-Z]+)*_(?:QUEUE|NAME|SEC|URL))\b")


def unit(path: Path) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.optionxform = str  # type: ignore[assignment, method-assign]
    found.read(path, encoding="utf-8")
    return found


def compose() -> dict[str, Any]:
    reader = YAML(typ="safe")
    found: dict[str, Any] = reader.load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return found


def commands() -> Iterator[tuple[str, list[str]]]:
    """Where a command stands, and its words."""
    for path in UNITS:
        program, *words = shlex.split(unit(path)["Service"]["ExecStart"])
        assert program == PROGRAM
        yield path.name, [word.replace("%i", "light") for word in words]
    for name, service in compose()["services"].items():
        if service["image"] == "rmhdag":
            yield f"compose {name}", service["command"]
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if any(word.endswith("rmhdag") for word in words):
                place = next(place for place, word in enumerate(words) if word.endswith("rmhdag"))
                if "=" not in words[place] and words[0] in (words[place], "sudo", "docker"):
                    yield f"docs/deployment.md: {line}", words[place + 1 :]
    for words_text in re.findall(r"`rmhdag ([^`]+)`", PAGE):
        yield f"docs/deployment.md: {words_text}", shlex.split(words_text)


COMMANDS = list(commands())


def check_command(words: list[str]) -> None:
    """Raises AssertionError if an option or a command does not exist."""
    command: Any = typer.main.get_command(build_app())
    while words and words[0] in (inner := getattr(command, "commands", {})):
        command, words = inner[words[0]], words[1:]
    first = words[0] if words else ""
    assert first.startswith("-") or not first or not getattr(command, "commands", None), f"no command {first}"
    known = {"-h", "--help", *(name for option in command.params for name in option.opts)}
    assert [word for word in words if word.startswith("-") and word.partition("=")[0] not in known] == []


@pytest.mark.parametrize("words", [words for _, words in COMMANDS], ids=[place for place, _ in COMMANDS])
def test_every_command_and_option_exists(words: list[str]) -> None:
    check_command(words)


def test_a_wrong_option_would_be_found() -> None:
    with pytest.raises(AssertionError):
        check_command(["worker", "--queues", "light"])
    with pytest.raises(AssertionError):
        check_command(["workflows", "enroll"])


def test_every_variable_is_a_setting() -> None:
    in_units = re.findall(r"^([A-Z_]+)=", (DEPLOY / "systemd" / "rmhdag.env").read_text(encoding="utf-8"), re.MULTILINE)
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    in_compose = {name for one in compose()["services"].values() for name in one["environment"]}
    in_compose |= set(re.findall(r"\$\{([A-Z_]+)", text))
    in_image = re.findall(r"([A-Z_]+)=", "".join(instructions("ENV")))
    assert len(in_units) > 5
    assert {*in_units, *in_compose, *in_image} - FOREIGN <= VARIABLES
    assert set(OF_THE_PAGE.findall(PAGE)) <= VARIABLES


def instructions(word: str) -> list[str]:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return [line.removeprefix(word).strip() for line in text.splitlines() if line.startswith(f"{word} ")]


def test_the_image_is_made_of_files_that_are_there() -> None:
    sources = [word for line in instructions("COPY") if not line.startswith("--from") for word in line.split()[:-1]]
    assert len(sources) > 3
    assert [source for source in sources if not (ROOT / source).exists()] == []
    for command in instructions("RUN"):
        for name in re.findall(r"-r (\S+)", command):
            assert (ROOT / name).is_file()
    assert json.loads(instructions("ENTRYPOINT")[0]) == ["rmhdag"]


def test_a_supervisor_waits_longer_than_a_worker_takes_to_stop() -> None:
    settings = (DEPLOY / "systemd" / "rmhdag.env").read_text(encoding="utf-8")
    found = re.search(r"^RMHDAG_WORKER_STOP_SECONDS=(\d+)$", settings, re.MULTILINE)
    assert found is not None
    worker = unit(DEPLOY / "systemd" / "rmhdag-worker@.service")["Service"]
    assert int(worker["TimeoutStopSec"]) > int(found[1])
    for name, service in compose()["services"].items():
        if name.startswith("worker"):
            stop_seconds = int(service["environment"]["RMHDAG_WORKER_STOP_SECONDS"])
            assert int(service["stop_grace_period"].removesuffix("s")) > stop_seconds


def test_nothing_drained_is_started_again() -> None:
    assert {unit(path)["Service"]["Restart"] for path in UNITS} == {"on-failure"}
    ours = [one["restart"] for one in compose()["services"].values() if one["image"] == "rmhdag"]
    assert set(ours) <= {"on-failure", "no"}


def test_the_page_names_every_file() -> None:
    files = [path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    shipped = [path.relative_to(ROOT).as_posix() for path in files]
    assert [name for name in shipped if name not in PAGE] == []
