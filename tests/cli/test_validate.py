"""`rmhdag validate`: what it says, in which form, and with which exit code."""

import json
from pathlib import Path

import pytest

from rmhdag.cli.workflow_files import as_github_annotation, quote_line, show_problem
from rmhdag.workflow import Problem
from tests.cli.conftest import RunCli

GOOD = """\
workflow_id: good
name: Good
nodes:
  first: {handler: echo, queue: light, next: second}
  second: {handler: echo, queue: light}
"""
BAD = """\
workflow_id: bad
name: Bad
nodes:
  first:
    handler: echo
    queue: light
    retires: 3
    next: secnd
  second: {handler: ecko, queue: light}
"""


@pytest.fixture
def files(home: Path) -> Path:
    (home / "flows").mkdir()
    (home / "flows" / "good.yaml").write_text(GOOD)
    (home / "flows" / "bad.yml").write_text(BAD)
    (home / "flows" / "notes.txt").write_text("not a workflow")
    (home / "good.yaml").write_text(GOOD)
    return home


def test_a_good_file(call_cli: RunCli, files: Path) -> None:
    done = call_cli("validate", "good.yaml")
    assert done.returncode == 0
    assert done.stdout == "good.yaml: valid (good v1, 2 nodes)\n"
    assert done.stderr == "1 file, no problems\n"


def test_a_bad_file_shows_every_problem_with_place_line_caret_and_remedy(call_cli: RunCli, files: Path) -> None:
    done = call_cli("validate", "flows/bad.yml")
    assert done.returncode == 3
    lines = done.stdout.splitlines()
    place = lines.index("flows/bad.yml:7:5: a task node has no field `retires`")
    assert lines[place + 1 : place + 4] == ["    7 |     retires: 3", "            ^", "  Did you mean `retries`?"]
    assert any(line.startswith("flows/bad.yml:8:11: ") and "secnd" in line for line in lines)
    assert any(line.startswith("flows/bad.yml:9:21: ") and "ecko" in line for line in lines)
    assert done.stderr.endswith(" problems in 1 of 1 file\n")


def test_a_folder_is_all_its_workflow_files(call_cli: RunCli, files: Path) -> None:
    done = call_cli("validate", "flows", "--json")
    assert done.returncode == 3
    told = json.loads(done.stdout)
    assert told["valid"] is False
    assert [file["file"] for file in told["files"]] == ["flows/bad.yml", "flows/good.yaml"]
    bad, good = told["files"]
    assert good == {
        "file": "flows/good.yaml",
        "valid": True,
        "workflow_id": "good",
        "version": 1,
        "node_count": 2,
        "problems": [],
    }
    assert told["problem_count"] == len(bad["problems"])
    assert bad["problems"][0] == {
        "file": "flows/bad.yml",
        "line": 7,
        "column": 5,
        "code": bad["problems"][0]["code"],
        "message": "a task node has no field `retires`",
        "remedy": "Did you mean `retries`?",
        "pointer": "/nodes/first/retires",
    }


def test_stdin(call_cli: RunCli) -> None:
    assert call_cli("validate", "-", stdin=GOOD).stdout == "<stdin>: valid (good v1, 2 nodes)\n"
    bad = call_cli("validate", "-", stdin=BAD)
    assert bad.returncode == 3
    assert "<stdin>:7:5: " in bad.stdout


def test_two_files_with_one_id_and_version(call_cli: RunCli, files: Path) -> None:
    done = call_cli("validate", "good.yaml", "flows/good.yaml")
    assert done.returncode == 3
    assert "flows/good.yaml:1:1: `good` version 1 is also in good.yaml" in done.stdout


def test_queues_that_exist(call_cli: RunCli, files: Path) -> None:
    assert call_cli("validate", "good.yaml", "--queue", "heavy", "--queue", "light").returncode == 0
    done = call_cli("validate", "good.yaml", "--queue", "heavy")
    assert done.returncode == 3
    assert "good.yaml:4:33: " in done.stdout


OWN = """\
from pydantic import BaseModel
from rmhdag.handlers import HandlerContext, handler

print("this must not be taken for an answer")


class Params(BaseModel):
    size: int
    tile: str = "t"


@handler("mine.clip", queue="light")
def clip(ctx: HandlerContext[Params]) -> None: ...
"""
CLIP = "workflow_id: clip\nnodes:\n  one: {handler: mine.clip, params: {size: %s, tile: a}}\n"


def test_modules_are_loaded_by_name(call_cli: RunCli, files: Path) -> None:
    (files / "mine.py").write_text(OWN)
    (files / "clip.yaml").write_text(CLIP % 3)
    (files / "bad.yaml").write_text(CLIP % '"3", tlie: a')
    assert call_cli("validate", "clip.yaml").returncode == 3
    assert call_cli("validate", "clip.yaml", RMHDAG_HANDLERS="mine").returncode == 0
    assert call_cli("validate", "clip.yaml", "--handlers", "mine").returncode == 0
    assert call_cli("validate", "clip.yaml", "--handlers", "", RMHDAG_HANDLERS="mine").returncode == 3
    bad = call_cli("validate", "bad.yaml", "--json", RMHDAG_HANDLERS="mine")
    found = [(one["code"], one["remedy"]) for one in json.loads(bad.stdout)["files"][0]["problems"]]
    assert found == [("wrong-type", "Write 3 without quotes"), ("unknown-parameter", "Did you mean `tile`?")]
    (files / "rmhdag.toml").write_text('handlers = "mine"\n')
    assert call_cli("validate", "clip.yaml").returncode == 0


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def f(:\n", "mine.py:1: SyntaxError: invalid syntax"),
        ("\nimport no_such_library\n", "mine.py:2: it imports 'no_such_library', which is not installed"),
        (OWN.replace("mine.clip", "echo"), "handler 'echo' is declared twice: by rmhdag.handlers.examples.echo"),
        (OWN.replace('queue="light"', "light=True"), "handler 'mine.clip', mine.clip ("),
        ("import os\nos._exit(7)\n", "the process that imported them ended with exit code 7"),
        ("import os\nos.kill(os.getpid(), 11)\n", "the process that imported them was killed by SIGSEGV"),
    ],
)
def test_a_mistake_in_a_module_is_a_matter_of_its_author(source: str, said: str, call_cli: RunCli, files: Path) -> None:
    (files / "mine.py").write_text(source)
    done = call_cli("validate", "good.yaml", "--handlers", "mine")
    assert done.returncode == 3
    assert said in done.stderr
    assert "defect" not in done.stderr
    assert len(done.stderr.splitlines()) == 2, "what is wrong, and what to do"


def test_a_manifest_of_handlers(call_cli: RunCli, files: Path) -> None:
    (files / "mine.yaml").write_text(GOOD.replace("handler: echo, queue: light", "handler: mine.clip"))
    (files / "handlers.json").write_text('[{"name": "mine.clip", "aliases": ["clip"], "queue": "light"}]')
    assert call_cli("validate", "mine.yaml").returncode == 3
    assert call_cli("validate", "mine.yaml", "--manifest", "handlers.json").returncode == 0
    (files / "handlers.json").write_text('{"name": 1}')
    broken = call_cli("validate", "mine.yaml", "--manifest", "handlers.json")
    assert broken.returncode == 3
    assert "handlers.json is not a manifest of handlers" in broken.stderr
    assert call_cli("validate", "mine.yaml", "--manifest", "nowhere.json").returncode == 4
    mixed_up = call_cli("validate", "mine.yaml", "--handlers", "handlers.json")
    assert (mixed_up.returncode, "Write --manifest handlers.json." in mixed_up.stderr) == (2, True)
    schema = '{"type": "object", "properties": {"size": {}}, "additionalProperties": false}'
    (files / "handlers.json").write_text(f'[{{"name": "mine.clip", "queue": "light", "params_schema": {schema}}}]')
    (files / "clip.yaml").write_text(CLIP % 3)
    refused = call_cli("validate", "clip.yaml", "--manifest", "handlers.json")
    assert "handler `mine.clip` has no parameter `tile`" in refused.stdout


def test_the_platform_is_asked_alone(call_cli: RunCli, files: Path) -> None:
    for option in ("--handlers", "--queue", "--manifest", "--env"):
        done = call_cli("validate", "good.yaml", "--live", option, "x")
        assert (done.returncode, option in done.stderr) == (2, True)


def test_variables_that_templates_may_read(call_cli: RunCli, files: Path) -> None:
    (files / "env.yaml").write_text(GOOD.replace("next: second", 'next: second, params: {r: "{{ env.REGION }}"}'))
    refused = call_cli("validate", "env.yaml")
    assert refused.returncode == 3
    assert "REGION" in refused.stdout
    assert call_cli("validate", "env.yaml", "--env", "REGION").returncode == 0
    assert call_cli("graph", "env.yaml").returncode == 0


def test_annotations_for_github(call_cli: RunCli, files: Path) -> None:
    done = call_cli("validate", "flows/bad.yml", "--github")
    assert done.returncode == 3
    assert done.stdout.splitlines()[0].startswith("::error file=flows/bad.yml,line=7,col=5,title=")
    problem = Problem("a,b:c.yaml", 1, 2, "code", "100 %\nsecond", "Do it")
    assert as_github_annotation(problem) == (
        "::error file=a%2Cb%3Ac.yaml,line=1,col=2,title=code::100 %25%0Asecond. Do it\n"
    )


def test_what_is_not_there(call_cli: RunCli, home: Path) -> None:
    (home / "empty").mkdir()
    for name, words in (("nowhere.yaml", "nowhere.yaml does not exist"), ("empty", "empty contains no workflow files")):
        done = call_cli("validate", name)
        assert (done.returncode, done.stdout) == (4, "")
        assert words in done.stderr


def test_forms_exclude_each_other(call_cli: RunCli, files: Path) -> None:
    assert call_cli("validate", "good.yaml", "--json", "--github").returncode == 2


def test_a_device_that_never_ends_is_refused(call_cli: RunCli) -> None:
    done = call_cli("validate", "/dev/zero")
    assert done.returncode == 3
    assert "/dev/zero:1:1: " in done.stdout


def test_hostile_text_cannot_steer_the_terminal() -> None:
    source = "a: \x1b[31m\u202eevil\n".encode()
    problem = Problem("f.yaml", 1, 5, "code", "no \x1b[2J here", "Remove \x07 it")
    shown = show_problem(problem, source)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\x07" not in shown


def test_the_caret_stands_under_the_place_in_long_wide_and_tabbed_lines() -> None:
    def caret(line: str, column: int) -> str:
        quoted, marker = quote_line(Problem("f", 1, column, "", "", ""), line.encode())
        from rmhdag.picture.text_width import columns

        prefix = marker.index("^")
        taken = ""
        for character in quoted:
            if columns(taken) == prefix:
                return character
            taken += character
        return ""

    assert caret("name: X", 7) == "X"
    assert caret("数字: X", 5) == "X"
    assert caret("\tX", 2) == "X"
    assert caret("a" * 500 + "X" + "b" * 500, 501) == "X"
    assert quote_line(Problem("f", 9, 1, "", "", ""), b"one line") == []


def test_the_environment_names_the_last_queue_and_variables(call_cli: RunCli, home: Path) -> None:
    text = 'workflow_id: w\nnodes: {a: {handler: echo, params: {region: "{{ env.REGION }}"}}}\n'
    (home / "flow.yaml").write_text(text)
    refused = call_cli("validate", "flow.yaml")
    assert refused.returncode == 3
    assert "DAG_WORKER_QUEUE is the last resort" in refused.stdout
    assert "Name it in the setting RMHDAG_TEMPLATE_ENV" in refused.stdout
    done = call_cli("validate", "flow.yaml", DAG_WORKER_QUEUE="light", RMHDAG_TEMPLATE_ENV="REGION")
    assert done.returncode == 0, done.stdout
