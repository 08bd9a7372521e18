"""The page of a prompt in a real browser: nothing runs, nothing is wider than a phone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rehydrate import compact_context
from rehydrate.page import inspector_page
from rehydrate.prompt import History, PromptIR, Provenance, Section
from tests.page.browser import CHROMIUM, measured
from tests.page.test_inspector import RICH
from tests.page.test_page import HOSTILE

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")

WORD = "averylongwordwithoutanyblankinit" * 40


def page_of(*texts: str) -> str:
    """Return a page with the texts in every field that holds foreign text."""
    sections = [
        Section(f"{text} {n}", text, Provenance(text, (text,), text, trust=0.5), tokens=9)
        for n, text in enumerate(texts)
    ]
    entries = [{"role": "user", "content": text} for text in texts]
    ir = RICH.replace(
        request=replace(RICH.request, query=" ".join(texts)),
        sections=(*RICH.sections, *sections),
        history=History(tuple(entries), "plain", (5,) * len(entries)),
    )
    units = compact_context(entries).explain()
    return inspector_page(ir, units=units, title=" ".join(texts))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("unfold", [False, True])
def test_no_text_makes_the_page_wider_than_a_phone(tmp_path: Path, dark: bool, unfold: bool):
    seen = measured(page_of(WORD, "日本" * 300, "\u202eabc"), tmp_path, dark=dark, unfold=unfold)
    assert seen["width"] <= 390
    assert seen["background"] == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")


def test_nothing_a_prompt_holds_runs_or_becomes_an_element(tmp_path: Path):
    attack = "<script>top.ran = 1</script><img src=x onerror='top.ran = 2'><svg onload='top.ran=3'>"
    seen = measured(page_of(HOSTILE, attack, f"</style></title>{attack}"), tmp_path, unfold=True)
    assert seen["ran"] == "undefined" and seen["handlers"] == 0
    assert not {"script", "img", "svg", "iframe", "object"} & set(seen["tags"])


def test_the_browser_of_these_tests_would_see_what_runs(tmp_path: Path):
    page = "<!doctype html><title>t</title><p onclick='1'>x<script>top.ran = 1</script>"
    seen = measured(page, tmp_path)
    assert (seen["ran"], seen["handlers"]) == ("1", 1) and "script" in seen["tags"]
    wide = measured(f"<!doctype html><p style='white-space:nowrap'>{WORD}", tmp_path)
    assert wide["width"] > 390


def test_the_policy_of_the_page_stops_a_script_that_came_through(tmp_path: Path):
    page = inspector_page(PromptIR()).replace("</main>", "</main><script>top.ran = 1</script>")
    assert measured(page, tmp_path)["ran"] == "undefined"
