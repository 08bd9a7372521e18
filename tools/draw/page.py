"""Screenshots by chromium of the example session's pages, before and after and as a prompt."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import rehydrate
from rehydrate.page import inspector_page, side_by_side
from rehydrate.prompt import (
    Budget,
    CompositionMode,
    ContextRequest,
    HeldOriginals,
    Priority,
    Provenance,
    Section,
    Stability,
    compile as compile_prompt,
    hydrate,
)

ROOT = Path(__file__).parents[2]
SESSION = Path("examples") / "session.jsonl"
QUERY = "which house rules did the user give?"
RATIO = 0.1
SCHEMES = {"light": 1, "dark": 0}
"""The numbers that chromium uses."""
DENSITY = 1.25
NOTES = Section(
    "hot",
    "The team ships on Thursdays. Commits end with a `Refs:` trailer that names the ticket.",
    Provenance("hot", ("memory/core.md",), trust=0.8),
    priority=Priority.HIGH,
    mode=CompositionMode.ADDITIVE,
    stability=Stability.STATIC,
)
"""A note in every turn, which such a session has with its messages."""


class Window(NamedTuple):
    """A picture's suffix after the page's name, and the size of its window."""

    suffix: str
    width: int
    height: int
    scheme: str = "light"


def draw_page(folder: Path) -> None:
    """Write side-by-side.png and side-by-side-dark.png."""
    session = _session()
    compaction = rehydrate.compact_context(session, QUERY, RATIO, granularity="excerpt")
    page = side_by_side(session, compaction, query=QUERY, title=SESSION.as_posix())
    windows = [Window("", 1200, 1040), Window("-dark", 1200, 1040, "dark")]
    _photograph(page, folder, "side-by-side", windows)


def draw_inspector(folder: Path) -> None:
    """Write inspector.png, inspector-dark.png and inspector-phone.png."""
    session = _session()
    request = ContextRequest(QUERY, budget=Budget(soft_tokens=30_000))
    ir = hydrate(
        request,
        str(ROOT / "docs"),
        messages=session,
        system=["You are a careful coding agent. Never touch a file that was not named.", NOTES],
        tools=[_tool(name) for name in ("Bash", "Edit")],
        timeout=None,
    )
    prompt = compile_prompt(ir, "anthropic", originals=HeldOriginals())
    units = rehydrate.compact_context(
        session, QUERY, budget_tokens=prompt.ir.history.total_tokens
    ).explain()
    page = inspector_page(prompt, units=units, title=SESSION.as_posix())
    windows = [
        Window("", 1200, 1120),
        Window("-dark", 1200, 1120, "dark"),
        Window("-phone", 500, 1040),  # chromium makes no window narrower
    ]
    _photograph(page, folder, "inspector", windows)


def _tool(name: str) -> dict[str, Any]:
    text = {"type": "string", "description": f"What {name} is to work on."}
    schema = {"type": "object", "properties": {"target": text}, "required": ["target"]}
    return {"name": name, "description": f"The agent's tool {name}.", "input_schema": schema}


def _session() -> list[Any]:
    lines = (ROOT / SESSION).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _photograph(page: str, folder: Path, name: str, windows: list[Window]) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("chromium is not installed; apt-get install chromium")
    with tempfile.TemporaryDirectory() as drafts:
        draft = Path(drafts) / "page.html"
        draft.write_text(page, encoding="utf-8")
        for window in windows:
            target = (folder / f"{name}{window.suffix}.png").resolve()
            subprocess.run(
                [
                    *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                    f"--blink-settings=preferredColorScheme={SCHEMES[window.scheme]}",
                    f"--force-device-scale-factor={DENSITY}",
                    f"--window-size={window.width},{window.height}",
                    f"--screenshot={target}",
                    draft.as_uri(),
                ],
                check=True,
                capture_output=True,
            )
