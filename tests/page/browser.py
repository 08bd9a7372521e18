"""A headless browser: measures a page from a frame around it."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

# The page itself runs no script; the frame inspects its document and reports.
_AROUND = """<!doctype html><meta charset="utf-8"><title>around</title>
<iframe id="page" style="width:{width}px;height:900px;border:0" srcdoc="{page}"></iframe>
<pre id="answer">nothing</pre>
<script>
addEventListener("load", () => {{
  const inside = document.getElementById("page").contentDocument;
  const started = performance.now();
  if ({unfold}) for (const one of inside.querySelectorAll("details")) one.open = true;
  const size = inside.documentElement.scrollWidth;
  document.getElementById("answer").textContent = JSON.stringify({{
    width: size, laid_out_ms: performance.now() - started,
    elements: inside.querySelectorAll("*").length,
    tags: [...new Set([...inside.querySelectorAll("*")].map(one => one.localName))].sort(),
    handlers: [...inside.querySelectorAll("*")].filter(one => [...one.attributes].some(
      attribute => attribute.name.startsWith("on"))).length,
    title: inside.title, ran: String(window.ran),
    background: getComputedStyle(inside.body).backgroundColor,
  }});
}});
</script>"""


def measured(
    page: str, folder: Path, *, width: int = 390, dark: bool = False, unfold: bool = False
) -> dict[str, Any]:
    """Return the browser's measures of a page at this width; `unfold` opens all folded parts."""
    around = folder / "around.html"
    held = html.escape(page, quote=True)
    around.write_text(
        _AROUND.format(width=width, page=held, unfold=json.dumps(unfold)), encoding="utf-8"
    )
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            f"--user-data-dir={folder / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--window-size=1400,1000",
            "--virtual-time-budget=60000",
            around.as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=90,
    )
    dumped = done.stdout.decode()
    answer = dumped.rpartition('<pre id="answer">')[2].partition("</pre>")[0]
    measures: dict[str, Any] = json.loads(html.unescape(answer))
    return measures
