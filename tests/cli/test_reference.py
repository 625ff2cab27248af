"""The reference in the documents is what the commands say of themselves."""

from pathlib import Path

from rmhdag.cli.reference import reference


def test_the_reference_is_up_to_date() -> None:
    """Made by `python -m rmhdag.cli.reference > docs/cli.md`."""
    written = Path(__file__).parents[2] / "docs" / "cli.md"
    assert written.read_text(encoding="utf-8") == reference()
