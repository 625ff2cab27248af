"""The style of the SVG picture, light and dark."""

from __future__ import annotations

from typing import NamedTuple

from rmhdag.models.states import NodeType
from rmhdag.picture.node_looks import LOOKS


class Theme(NamedTuple):
    ground: str
    card: str
    border: str
    text: str
    muted: str
    line: str
    accents: dict[NodeType, str]


LIGHT = Theme(
    ground="#f6f8fb",
    card="#ffffff",
    border="#b3bfce",
    text="#172033",
    muted="#526075",
    line="#8593a8",
    accents={node_type: look.light for node_type, look in LOOKS.items()},
)
DARK = Theme(
    ground="#0f1520",
    card="#1a2332",
    border="#4d5d78",
    text="#eaf0f8",
    muted="#a3b0c4",
    line="#6d7d95",
    accents={node_type: look.dark for node_type, look in LOOKS.items()},
)

SHAPES = """
.rmhdag text{font:600 14px system-ui,"Segoe UI",Roboto,Helvetica,Arial,"DejaVu Sans",sans-serif}
.rmhdag .detail,
.rmhdag .label text{font:400 12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.rmhdag .label text,.rmhdag .badge-text,.rmhdag .end-label{text-anchor:middle}
.rmhdag .end-label{font-size:12px;letter-spacing:.04em}
.rmhdag .badge-text{font-size:11px}
.rmhdag .line{fill:none;stroke-width:1.6}
.rmhdag .any_of{stroke-dasharray:5 4}
.rmhdag .card,.rmhdag .label rect{stroke-width:1.4}
.rmhdag .inner{fill:none;stroke-width:1}
.rmhdag .tile{stroke:none;fill-opacity:.13}
.rmhdag .icon{fill:none;stroke-width:1.7;stroke-linecap:round;stroke-linejoin:round}
.rmhdag .badge{stroke-width:1.4}
"""


def theme_rules(theme: Theme) -> str:
    rules = [
        f".rmhdag .ground{{fill:{theme.ground}}}",
        f".rmhdag text{{fill:{theme.text}}}",
        f".rmhdag .detail,.rmhdag .end-label{{fill:{theme.muted}}}",
        f".rmhdag .line{{stroke:{theme.line}}}",
        f".rmhdag .tip{{fill:{theme.line}}}",
        f".rmhdag .card,.rmhdag .label rect{{fill:{theme.card};stroke:{theme.border}}}",
        f".rmhdag .inner{{stroke:{theme.border}}}",
        f".rmhdag .label text{{fill:{theme.accents[NodeType.CONDITIONAL]}}}",
        f".rmhdag .mark{{fill:{theme.ground}}}",
        f".rmhdag .badge{{fill:{theme.card};stroke:{theme.accents[NodeType.FAN_OUT]}}}",
        f".rmhdag .badge-text{{fill:{theme.accents[NodeType.FAN_OUT]}}}",
    ]
    by_accent: dict[str, list[str]] = {}
    for kind, accent in theme.accents.items():
        by_accent.setdefault(accent, []).append(kind)
    for accent, kinds in by_accent.items():
        fills = ",".join(f".rmhdag .{kind} .tile,.rmhdag .{kind} .disc" for kind in kinds)
        strokes = ",".join(f".rmhdag .{kind} .icon" for kind in kinds)
        rules += [f"{fills}{{fill:{accent}}}", f"{strokes}{{stroke:{accent}}}"]
    return "\n".join(rules)


STYLE = f"{SHAPES}{theme_rules(LIGHT)}\n@media (prefers-color-scheme:dark){{\n{theme_rules(DARK)}\n}}\n"
