"""`rmhdag simulate`: seeds run, a seed replays exactly. What the simulator proves is tested with the simulator."""

import json

from tests.cli.conftest import RunCli


def test_seeds_run_and_are_counted(call_cli: RunCli) -> None:
    done = call_cli("simulate", "--seeds", "3", "--start", "5")
    assert done.returncode == 0, done.stdout
    assert done.stdout == ""
    assert done.stderr.startswith("3 seeds, ")
    assert done.stderr.endswith(", 0 failures\n")
    told = json.loads(call_cli("simulate", "--seeds", "3", "--start", "5", "--json").stdout)
    assert (told["ok"], told["start"], told["seeds"], told["failures"]) == (True, 5, 3, [])
    assert f"3 seeds, {told['steps']} steps" in done.stderr
    assert told["operations"]


def test_a_seed_replays_exactly(call_cli: RunCli) -> None:
    once, again = call_cli("simulate", "--seed", "7"), call_cli("simulate", "--seed", "7")
    assert once.returncode == 0
    assert once.stdout == again.stdout
    assert len(once.stdout.splitlines()) > 50
    assert "every invariant held" in once.stderr
    told = json.loads(call_cli("simulate", "--seed", "7", "--json").stdout)
    assert told["trace"] == once.stdout.splitlines()
