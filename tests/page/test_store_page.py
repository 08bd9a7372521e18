"""The page of a context store: every item with where it is from, and nothing that runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from rehydrate import formats
from rehydrate.context import Context, ContextStore, StoredConversation, Threads
from rehydrate.page import context_store, store_page
from tests import strategies
from tests.page.browser import CHROMIUM, measured
from tests.page.reading import Page
from tests.page.test_page import HOSTILE, escaped, on_page

ATTACK = "<script>top.ran = 1</script><img src=x onerror='top.ran = 2'>"
WORD = "averylongwordwithoutanyblankinit" * 40


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call(number: int, name: str, result: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Yield a tool call and its result."""
    use = {"type": "tool_use", "id": f"t{number}", "name": name, "input": arguments}
    yield {"role": "assistant", "content": [use]}
    reported = {"type": "tool_result", "tool_use_id": f"t{number}", "content": result}
    yield {"role": "user", "content": [reported]}


def work(word: str = "") -> list[dict[str, Any]]:
    """A conversation with an item of every kind and every status."""
    return [
        user(f"Fix the login {word}. Always use tabs for indentation.\n\nGOAL: sign-in {word}."),
        assistant(f"We decided to keep sessions in SQLite {word}."),
        *call(1, "Edit", "ok", file_path=f"src/login{word}.py"),
        *call(2, "Bash", f"41 items\n\nTypeError: no session {word}\nfailed", command="make test"),
        *call(3, "Bash", f"fatal: no host {word}", command="make deploy"),
        *call(4, "Bash", "41 passed", command="make test"),
        user("From now on, use spaces instead of tabs for indentation."),
        *call(5, "Edit", "ok", file_path=f"src/login{word}.py"),
        *[entry for n in range(70) for entry in call(6 + n, "Bash", "fine", command=f"ls {n}")],
        user("Deploy it."),
    ]


def stored(path: Path, entries: list[dict[str, Any]]) -> StoredConversation:
    with Context.open(path, thread="t", namespace="n", clock=lambda: 1e9) as context:
        context.add(*entries)
    with Threads.open(path, namespace="n", read_only=True) as threads:
        return threads.read("t")


def page_of(read: StoredConversation, **options: Any) -> str:
    return store_page(read.store, read.entries, format=read.format, times=read.times, **options)


def rows(written: str) -> dict[str, str]:
    """Return the HTML of each item by its id."""
    parts = re.split(r'<details class="row item [^"]*" id="(item\d+)">', written)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def shown(read: StoredConversation, written: str, text: str) -> str:
    """Return what the row of the last item with this text says."""
    item = [item for item in read.store.items() if item.text == text][-1]
    inline = re.sub(r"</?(bdi|mark|a|b)\b[^>]*>", "", rows(written)[f"item{item.id}"])
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", inline)).split())


def test_each_item_says_what_it_is_and_where_it_is_from(tmp_path: Path) -> None:
    read = stored(tmp_path / "t.db", work())
    written = page_of(read, title="t-42")
    for text, reported in {
        "Always use tabs for indentation.": [
            "preference superseded by #10 From now on, use spaces", "user, trust 1", "strength",
            "2001-09-09 01:46 UTC", "GOAL: sign-in",
        ],
        "From now on, use spaces instead of tabs for indentation.": [
            "preference live", "#10", "instead of #0 Always use tabs for indentation.",
        ],
        "We decided to keep sessions in SQLite .": ["decision live", "assistant, trust 0.75", "#1"],
        "src/login.py": ["file live", "edited #2, #11", '{"file_path":"src/login.py"}'],
        "TypeError: no session": ["error resolved", "tool, trust 0.5", "#5", "resolved #9",
                                  "41 items", "failed"],
        "fatal: no host": ["error faded", "#7"],
        "GOAL: sign-in .": ["note live", "Fix the login"],
    }.items():  # fmt: skip
        row = shown(read, written, text)
        for part in reported:
            assert part in row, (text, part)
    page = Page(written)
    for part in (
        "context store of t-42", "of 4,000", "## Decisions", "1 resolved, 1 faded",
        f"{len(read.store.operations)} operations", f"{len(read.entries)} entries read",
        "SUPERSEDE", "PROMOTE", "RESOLVE", "FADE", "User Preferences: preference",
    ):  # fmt: skip
        assert part in page.text, part


def test_a_superseded_item_links_to_what_holds_instead(tmp_path: Path) -> None:
    read = stored(tmp_path / "t.db", work())
    written = page_of(read)
    for item in read.store.items():
        row = rows(written)[f"item{item.id}"]
        assert (f'by <a href="#item{item.other}">' in row) == (item.other is not None)
    Page(written)  # refuses a link that leads nowhere


@given(strategies.anthropic_conversations())
def test_every_item_is_marked_in_the_text_that_it_is_from(entries: list[Any]) -> None:
    store = ContextStore()
    store.update(formats.parse(entries, "anthropic").messages)
    written = store_page(store, entries, format="anthropic")
    Page(written)
    for item in store.items():
        marked = re.findall(r"<mark>(.*?)</mark>", rows(written)[f"item{item.id}"], re.DOTALL)
        assert marked == [escaped(item.text)]


def test_nothing_in_a_thread_becomes_markup(tmp_path: Path) -> None:
    hostile = HOSTILE.replace("\ud800", "").replace("\n", " ")  # a file has no half pairs
    for number, word in enumerate((hostile, ATTACK)):
        written = page_of(stored(tmp_path / f"{number}.db", work(word)), title=word)
        assert not re.search(r"<(script|img)", written)
        assert on_page("TypeError: no session " + word) in Page(written).text
        assert "default-src 'none'" in written


def test_an_empty_store_has_a_page(tmp_path: Path) -> None:
    page = Page(page_of(stored(tmp_path / "t.db", [assistant("Hello.")])))
    assert "nothing to keep yet" in page.text and page.links == []
    Page(store_page(ContextStore(), []))


def test_a_store_of_a_context_needs_no_file_and_no_times() -> None:
    context = Context()
    context.add(*work())
    written = store_page(context.store, context.history)
    assert "UTC" not in written and len(rows(written)) == len(context.store.items())


def test_long_messages_are_shown_in_part_and_long_stores_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(f"line {n}\n" for n in range(400))
    entries = [
        user(f"{lines}Never push to main.\n{lines}"),
        *[user(f"What is at berth {n}?") for n in range(40)],
    ]
    read = stored(tmp_path / "t.db", entries)
    row = shown(read, page_of(read), "Never push to main.")
    assert "line 399 Never push to main. line 0" in row
    assert row.count("not shown") == 2 and "line 200" not in row
    monkeypatch.setattr(context_store, "LINES", 10)
    page = Page(page_of(read))  # its links lead only to what is shown
    assert "more lines not shown on this page" in page.text
    assert "more operations not shown on this page" in page.text


def test_an_item_whose_text_is_gone_says_so() -> None:
    context = Context()
    context.add(*work())
    other = [user("Something else."), *context.history[1:]]
    written = store_page(context.store, other, times=[datetime.now(UTC)])
    assert "#0 has another text there now" in Page(written).text


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("word", [WORD, ATTACK, "\u202eabc"])
def test_in_a_browser_nothing_runs_and_nothing_is_wider_than_a_phone(
    tmp_path: Path, dark: bool, word: str
) -> None:
    written = page_of(stored(tmp_path / "t.db", work(word)), title=word)
    for unfold in (False, True):
        seen = measured(written, tmp_path, dark=dark, unfold=unfold)
        assert seen["width"] <= 390
        assert seen["background"] == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
        assert seen["ran"] == "undefined" and seen["handlers"] == 0
        assert not {"script", "img"} & set(seen["tags"])
