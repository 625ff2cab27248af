"""What a node may be called: one pattern for the models, the rules and the JSON Schema."""

from __future__ import annotations

from rmhdag.models.limits import NODE_ID_CHARACTERS

NODE_NAME = rf"^[A-Za-z][A-Za-z0-9_-]{{0,{NODE_ID_CHARACTERS - 1}}}$"
NODE_NAME_REMEDY = f"Use a letter, then letters, digits, `_` and `-`, at most {NODE_ID_CHARACTERS} in all"
