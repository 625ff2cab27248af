"""What holds for every command: help, exit codes, streams, colour, mistakes, readers that go away."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

import rmhdag
from rmhdag.cli.app import build_app, command_of
from rmhdag.cli.commands import COMMANDS
from rmhdag.cli.exit_codes import MEANINGS, ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.main import hoist_global_flags, run
from rmhdag.cli.reference import pages
from tests.cli.conftest import RunCli, plain_environment

SMALL = """\
workflow_id: small
name: Small
nodes:
  greet: {handler: hello_world, queue: light}
"""


@pytest.fixture
def small(home: Path) -> Path:
    path = home / "small.yaml"
    path.write_text(SMALL)
    return path


def test_help_leads_with_examples_and_lists_the_exit_codes(run_cli: RunCli) -> None:
    done = run_cli("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.index("Examples:") < done.stdout.index("Options:") < done.stdout.index("Commands:")
    for code, meaning in MEANINGS.items():
        assert f"{code.value:>3}  {meaning}\n" in done.stdout
    for name in COMMANDS:
        assert f"\n  {name} " in done.stdout


def test_every_command_has_help_in_short_and_long() -> None:
    for path, text in pages():
        assert "Usage: " + path in text
        assert "...\n" not in text.partition("Commands:")[2], f"{path}: a short help is cut"
        assert "-h, --help" in text


def test_the_version(run_cli: RunCli) -> None:
    for arguments in (["--version"], ["version"]):
        done = run_cli(*arguments)
        assert (done.returncode, done.stdout) == (0, f"rmhdag {rmhdag.__version__}\n")


def test_a_mistyped_command_gets_a_suggestion(run_cli: RunCli) -> None:
    done = run_cli("valdate", "x.yaml")
    assert done.returncode == ExitCode.USAGE
    assert done.stdout == ""
    assert "Did you mean 'validate'?" in done.stderr
    assert "Did you mean 'migrate'?" in run_cli("db", "migrat").stderr


@pytest.mark.parametrize(
    "arguments", [["validate"], ["graph", "a", "b"], ["graph", "x", "--width", "5"], ["--nothing"]]
)
def test_a_wrong_command_line_is_exit_code_2(run_cli: RunCli, arguments: list[str]) -> None:
    done = run_cli(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_global_flags_may_stand_anywhere() -> None:
    assert hoist_global_flags(["doctor", "--no-color", "--json"]) == ["--no-color", "doctor", "--json"]
    assert hoist_global_flags(["x", "--", "--debug"]) == ["x", "--", "--debug"]


def test_only_the_command_that_runs_is_built() -> None:
    assert command_of(["--no-color", "graph", "x"]) == "graph"
    assert command_of(["--help"]) is None
    assert command_of(["grph"]) is None
    names = [command.name or command.callback.__name__ for command in build_app(("graph",)).registered_commands]  # type: ignore[union-attr]
    assert names == ["graph"]


def test_the_table_of_commands_is_that_of_the_commands() -> None:
    """`rmhdag --help` prints the table and imports none of them."""
    group = get_command(build_app())
    assert isinstance(group, TyperGroup)
    assert {name: command.get_short_help_str(limit=200) for name, command in group.commands.items()} == {
        name: command.help for name, command in COMMANDS.items()
    }


def test_help_lists_the_commands_in_the_order_of_the_table(run_cli: RunCli) -> None:
    listed = run_cli("--help").stdout.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split(None, 1) for line in listed] == [[name, command.help] for name, command in COMMANDS.items()]


def test_an_unexpected_error_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(arguments: list[str]) -> int:
        raise ZeroDivisionError("nobody thought of this")

    assert run([], fail) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        "error: ZeroDivisionError: nobody thought of this",
        "  This is a defect of rmhdag. Run the command again with --debug and report what it prints.",
    ]
    assert run(["--debug"], fail) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_failure_is_told_with_its_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(arguments: list[str]) -> int:
        raise CommandFailed("it is not there", remedy="Put it back.", code=ExitCode.NOT_FOUND)

    assert run([], fail) == 4
    assert capsys.readouterr().err == "error: it is not there\n  Put it back.\n"


def read_terminal(arguments: list[str], home: Path, **environment: str) -> str:
    """What a terminal of 100 columns shows."""
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            [sys.executable, "-m", "rmhdag.cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=follower,
            stderr=follower,
            cwd=home,
            env=plain_environment(home) | {"TERM": "xterm", "COLUMNS": "100"} | environment,
        )
        os.close(follower)
        shown = b""
        try:
            while piece := screen.read(65536):
                shown += piece
        except OSError:  # how a terminal says that its last user has gone
            pass
        assert process.wait(60) == 0
    return shown.decode("utf-8")


def test_colour_is_for_terminals_that_want_it(small: Path, home: Path, run_cli: RunCli) -> None:
    assert "\x1b[" in read_terminal(["graph", "small.yaml"], home)
    assert "\x1b[" in read_terminal(["validate", "small.yaml"], home)
    assert "\x1b[" not in read_terminal(["graph", "small.yaml", "--no-color"], home)
    assert "\x1b[" not in read_terminal(["graph", "small.yaml"], home, NO_COLOR="1")
    assert "\x1b[" not in read_terminal(["graph", "small.yaml"], home, TERM="dumb")
    assert "\x1b[" not in run_cli("graph", small).stdout


def test_a_reader_that_goes_away_is_no_error(small: Path, home: Path) -> None:
    for command, code in (("graph small.yaml", 0), ("validate nothing.yaml small.yaml", 4), ("db ddl", 0)):
        process = subprocess.Popen(
            [sys.executable, "-m", "rmhdag.cli", *command.split()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=home,
            env=plain_environment(home),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read().decode()
        process.stderr.close()
        assert process.wait(60) == code, errors
        assert "Broken" not in errors
        assert "Traceback" not in errors


def test_interrupted_is_exit_code_130_without_a_traceback(home: Path) -> None:
    """The simulator shows a bar in a terminal: the first sign of it says that the command is at work."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rmhdag.cli", "simulate", "--seeds", "1000000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=follower,
        cwd=home,
        env=plain_environment(home) | {"TERM": "xterm"},
    )
    os.close(follower)
    shown = b""
    try:
        while b"seeds" not in shown:
            shown += os.read(leader, 65536)
        process.send_signal(signal.SIGINT)
        while piece := os.read(leader, 65536):
            shown += piece
    except OSError:  # the last user of the terminal has gone
        pass
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        os.close(leader)
    assert process.wait(60) == 130
    assert b"Traceback" not in shown


def test_text_that_the_terminal_cannot_show_is_replaced(home: Path, run_cli: RunCli) -> None:
    (home / "né.yaml").write_text(SMALL, encoding="utf-8")
    done = run_cli("validate", "né.yaml", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    drawn = run_cli("graph", "né.yaml", PYTHONIOENCODING="ascii")
    assert drawn.stdout.isascii()
    assert "| hello_world |" in drawn.stdout


def test_an_interrupt_that_a_library_swallows_is_not_lost(home: Path) -> None:
    program = """
import os, signal
from rmhdag.cli import interrupts, main

def act(arguments):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise RuntimeError("turned into something else") from None
    return 0

interrupts.remember_interrupts()
try:
    main.run([], act)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=home, check=True)
    assert done.stdout == "interrupted\n"
