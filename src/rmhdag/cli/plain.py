"""`validate` and `graph` as editors and hooks call them at every save: without the argument parser.

Typer is a quarter of such a start. Only words that can be read in one way are read here; options with values, help and
mistakes go to Typer, and both ways end in the same functions.
"""

from __future__ import annotations

from collections.abc import Sequence

FLAGS = {
    "validate": ("--json", "--github"),
    "graph": ("--svg", "--mermaid", "--dot", "--json", "--ascii"),
}


def run_plain(arguments: Sequence[str]) -> int | None:
    """The exit code; None if the words need the parser."""
    if not arguments or arguments[0] not in FLAGS:
        return None
    command, words = arguments[0], arguments[1:]
    files = [word for word in words if word not in FLAGS[command]]
    if not files or any(word.startswith("-") and word != "-" for word in files):
        return None
    if command == "validate":
        from rmhdag.cli.validation import validate_files

        return validate_files(files, as_json="--json" in words, github="--github" in words)
    if len(files) > 1:
        return None
    from rmhdag.cli.picture import show_picture

    show_picture(
        files[0],
        svg="--svg" in words,
        mermaid="--mermaid" in words,
        dot="--dot" in words,
        as_json="--json" in words,
        ascii_only="--ascii" in words,
    )
    return 0
