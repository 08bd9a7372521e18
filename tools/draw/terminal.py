"""A command and what it printed, as an SVG of a terminal that loads no font and no script."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 112
_ROOT = Path(__file__).resolve().parents[2]
_EXAMPLE = "examples/ask_back.py"
_LOADED = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_STYLES = (
    (r"^> .*", "bold cyan"),
    (r"^request_context\(.*?\)", "bold magenta"),
    (r"^  \w{3} \d\d:\d\d ", "dim"),
    (r" (user|assistant): ", "green"),
    (r"^Written, .*", "bold"),
    (r"^(The session|\d requests|The last prompt)\b.*", "bright_black"),
)


def printed() -> str:
    """Return what the example prints, without the time that a request took."""
    done = subprocess.run(
        [sys.executable, _EXAMPLE], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    return re.sub(r", [\d.]+ ms$", "", done.stdout, flags=re.MULTILINE)


def draw_terminal(path: Path) -> None:
    """Write the picture of `examples/ask_back.py`."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "dim"), (f"python {_EXAMPLE}", "bold")))
    for line in printed().splitlines():
        shown = Text(line)
        for pattern, style in _STYLES:
            shown.highlight_regex(pattern, style)
        console.print(shown)
    drawn = console.export_svg(title="The model asks back", unique_id="ask-back")
    drawn = _LOADED.sub("", drawn).replace("Fira Code", "ui-monospace, Menlo, Consolas")
    path.write_text(drawn, encoding="utf-8")
