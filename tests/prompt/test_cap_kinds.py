"""Caps: the kind of a text, and the part of each kind that is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate import _native
from rehydrate.prompt.caps import NOTICE_TOKENS, Kind, cap_text, notice
from rehydrate.prompt.counting import COUNTER
from tests.prompt.long_texts import jsons, long_texts
from tests.sizes import sized

LIMIT = 8_000
"""Tokens."""
CODE = "".join(
    f"import module_{n}\n\n\ndef function_{n}(a, b):\n" + "    total = a + b\n" * 25
    for n in range(120)
)
DIFF = "".join(
    f"diff --git a/lib/file_{n}.py b/lib/file_{n}.py\n"
    f"--- a/lib/file_{n}.py\n+++ b/lib/file_{n}.py\n"
    + "".join(
        f"@@ -{h},9 +{h},9 @@ def f_{n}_{h}():\n" + " same\n" * 8 + f"+new_{n}\n" for h in range(9)
    )
    for n in range(120)
)
LOG = "".join(f"2026-02-17 10:{n // 60 % 60:02}:{n % 60:02} INFO tick {n}\n" for n in range(3_000))
GREP = "".join(
    f"src/file_{n}.ts:{m}:  const name_{n}_{m} = use()\n" for n in range(60) for m in range(40)
)
ROWS = [{"id": n, "state": ["open", "closed"][n % 2], "price": 1.10} for n in range(5_000)]


@pytest.mark.parametrize(
    ("text", "tool", "kind"),
    [
        (json.dumps(ROWS), "", Kind.JSON),
        (json.dumps({"rows": ROWS}, indent=2), "", Kind.JSON),
        ("\n".join(map(json.dumps, ROWS)), "", Kind.JSON_LINES),
        (DIFF, "Bash", Kind.DIFF),
        (LOG, "", Kind.LOG),
        (GREP, "", Kind.MATCHES),
        ("".join(f"src/{n}/file.py\n" for n in range(900)), "Glob", Kind.LIST),
        ("id,name,state\n" + "".join(f"{n},n{n},open\n" for n in range(900)), "", Kind.LIST),
        ("".join(f"- item number {n}\n" for n in range(900)), "", Kind.LIST),
        (CODE, "Read", Kind.CODE),
        ("".join(f"{n:6}→{line}\n" for n, line in enumerate(CODE.split("\n"), 1)), "", Kind.CODE),
        ("It was a dark and stormy night. " * 900, "", Kind.TEXT),
        ("The rain fell.\n" * 900 + "12 tests, 1 failed\n", "Bash", Kind.LOG),
        ("The rain fell.\n" * 900, "Bash", Kind.TEXT),
        ("[INFO] not json\n" * 900, "", Kind.LOG),
        ('{"cut off": [' + "1, 2, " * 900, "", Kind.TEXT),
        ("\ufeff " + json.dumps(ROWS), "", Kind.JSON),
        (" \ufeff" + json.dumps(ROWS), "", Kind.TEXT),
    ],
)
def test_a_kind_is_recognised_by_the_content(text: str, tool: str, kind: Kind):
    capped = cap_text(text, 200, tool=tool)
    assert capped is not None
    assert capped.kind is kind


def test_plain_text_is_cut_at_the_cap_and_the_notice_is_the_contracts():
    text = "It was a dark and stormy night, " * 2_000
    capped = cap_text(text, LIMIT)
    assert capped is not None
    assert text.startswith(capped.body)
    assert capped.render() == (
        f"{capped.body}\n\n[truncated: {tokens(text) - tokens(capped.body)} tokens omitted. "
        "call again with stricter filters to see specific parts.]"
    )
    assert 0.9 * (LIMIT - NOTICE_TOKENS) <= tokens(capped.body) <= LIMIT - NOTICE_TOKENS


def test_a_text_within_its_cap_stays_whole_to_the_token():
    for word in ("word ", "слово ", "字", "คำ"):
        whole = word * 30_000
        most = len(whole) * LIMIT // tokens(whole)
        while tokens(whole[: most + 1]) <= LIMIT:
            most += 1
        while tokens(whole[:most]) > LIMIT:
            most -= 1
        assert cap_text(whole[:most], LIMIT) is None
        capped = cap_text(whole[: most + len(word)], LIMIT)
        assert capped is not None


SCRIPTS = {
    "english": "Once upon a time there was a ship. ",
    "chinese": "一艘船从港口驶向大海，船上有三名水手。",
    "japanese": "船は港を出て海へ向かった。水夫は三人いた。",
    "thai": "เรือลำหนึ่งออกจากท่าไปสู่ทะเลใหญ่ ",
    "arabic": "خرجت سفينة من الميناء إلى البحر الكبير. ",
    "hebrew": "אוניה אחת יצאה מן הנמל אל הים הגדול. ",
    "hindi": "एक जहाज बंदरगाह से बड़े समुद्र की ओर निकला। ",
    "russian": "Корабль вышел из гавани в открытое море. ",
    "amharic": "አንድ መርከብ ከወደብ ወደ ባሕር ወጣ። ",
    "emoji": "🚢⚓️👨‍👩‍👧🌊",
    "base64": "aGVsbG8gd29ybGQ4NzM0Mjg3Y2hq",
    "code": "def f_7(a, b):\n    return a * 7 + b\n\n",
    "numbers": "0x7f3a 93.12, 8271;\n",
    "json": '{"名前": "船長", "港": "横浜", "id": 93}\n',
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("limit", [400, 2_000, LIMIT])
def test_a_capped_text_has_no_more_tokens_than_its_cap_in_any_script(script: str, limit: int):
    text = SCRIPTS[script] * (60_000 // len(SCRIPTS[script]))
    capped = cap_text(text, limit)
    assert capped is not None
    handle = "orig_vhh7ct57t2hzgfssmrwpmoggtm"
    shown = capped.render(handle)
    assert tokens(shown) <= limit
    assert tokens(shown) >= 0.55 * limit or capped.kind in (Kind.LIST, Kind.JSON_LINES)
    omitted = int(re.search(r"truncated: (\d+) tokens", shown)[1])
    assert abs(omitted + tokens(capped.body) - tokens(text)) <= 0.06 * tokens(text)
    if capped.kind is Kind.TEXT:
        assert omitted == tokens(text) - tokens(capped.body)


def tokens(text: str) -> int:
    return _native.count(text, COUNTER)


@pytest.mark.parametrize("character", ["e\u0301", "👨‍👩‍👧", "👍🏽", "\r\n", "\ud83d\ude00", "☝️"])
def test_no_character_is_split(character: str):
    for lead in range(len(character)):
        capped = cap_text("a" * lead + character * 20_000, 400)
        assert capped is not None
        assert (len(capped.body) - lead) % len(character) == 0


def test_a_list_shows_a_hundred_rows_how_many_more_and_what_to_filter_by():
    capped = cap_text(json.dumps(ROWS), LIMIT)
    assert capped is not None
    value, end = json.JSONDecoder().raw_decode(capped.body)
    assert value == ROWS[:100]
    summary = capped.body[end:].strip()
    assert summary == "4,900 more. filters: id, state (open, closed), price (1.1)"


def test_the_values_of_few_rows_are_counted():
    rows = [{"state": "open" if n % 3 else "closed", "text": "x" * 90} for n in range(900)]
    capped = cap_text(json.dumps(rows), LIMIT)
    assert capped is not None
    assert "800 more. filters: state (open 600, closed 300), text" in capped.body


def test_an_object_keeps_its_keys_and_says_which_list_was_cut():
    value = {"total": 5_000, "note": "n" * 50_000, "page": {"rows": ROWS}, "next": "abc"}
    capped = cap_text(json.dumps(value), LIMIT)
    assert capped is not None
    left, end = json.JSONDecoder().raw_decode(capped.body)
    assert list(left) == list(value)
    assert (left["total"], left["next"]) == (5_000, "abc")
    assert left["page"]["rows"] == ROWS[: len(left["page"]["rows"])]
    assert re.search(r"^n+\[\.\.\. [\d,]+ characters omitted, \d+-50000 \.\.\.\]$", left["note"])
    assert capped.body[end:].strip() == "page.rows: 4,900 more (100 of 5,000)"


def test_numbers_escapes_and_order_stay_as_the_tool_wrote_them():
    row = '{"b": 1.10, "a": 12345678901234567890123, "c": "\\u00e9\\ud83d\\ude00", "a": 1E5}'
    capped = cap_text("[" + ", ".join([row] * 2_000) + "]", LIMIT)
    assert capped is not None
    assert capped.body.startswith("[" + ", ".join([row] * 100) + "]")


@given(jsons(), st.sampled_from([400, 900]))
def test_json_that_was_cut_is_json_of_the_same_type_and_keys(text: str, limit: int):
    capped = cap_text(text, limit)
    if capped is None or capped.kind is not Kind.JSON:
        return
    left, _ = json.JSONDecoder().raw_decode(capped.body)
    _assert_same_schema(json.loads(text), left)


def _assert_same_schema(whole, left):
    assert type(left) is type(whole)
    if isinstance(whole, dict):
        # Equal keys are one when read.
        for key, value in left.items():
            _assert_same_schema(whole[key], value)
    elif isinstance(whole, list):
        assert len(left) <= len(whole)
        for one, other in zip(whole, left, strict=False):
            _assert_same_schema(one, other)
    elif isinstance(whole, str):
        assert left == whole or " omitted, " in left


def test_a_log_ends_as_it_ended_and_tells_what_went_wrong_before():
    lines = LOG.splitlines()
    lines[400] = "Traceback (most recent call last):\n  File 'a.py', line 7\nDiskError: full"
    capped = cap_text("\n".join(lines) + "\n", LIMIT)
    assert capped is not None
    assert capped.body.endswith("\n".join(lines[-200:]) + "\n")
    assert lines[-201] not in capped.body
    assert lines[400] in capped.body
    assert lines[0] in capped.body


def test_a_problem_that_repeats_is_shown_once():
    lines = LOG.splitlines()
    lines[100:1_100] = [f"2026-02-17 ERROR retry {n} failed" for n in range(1_000)]
    capped = cap_text("\n".join(lines), LIMIT)
    assert capped is not None
    assert capped.body.count(" failed") == 1


def test_a_diff_shows_every_file_and_hunk_and_the_first_hunk_of_each_file():
    capped = cap_text(DIFF, LIMIT)
    assert capped is not None
    assert all(f"+++ b/lib/file_{n}.py" in capped.body for n in range(120))
    assert sum(f"+new_{n}" in capped.body for n in range(120)) > 60


def test_a_search_shows_every_file_and_counts_what_is_left_out():
    capped = cap_text(GREP, LIMIT)
    assert capped is not None
    assert all(f"src/file_{n}.ts:0:" in capped.body for n in range(60))
    shown = len(re.findall(r"^src/", capped.body, re.M))
    more = sum(int(n) for n in re.findall(r"\[\.\.\. (\d+) more match", capped.body))
    assert shown + more == 60 * 40


def test_code_shows_what_is_defined_and_its_first_bodies():
    capped = cap_text(CODE, LIMIT, tool="Read")
    assert capped is not None
    shown = sum(f"def function_{n}(a, b):" in capped.body for n in range(120))
    assert shown > 80  # of their 120, and imports take as much room
    assert capped.body.startswith(CODE[:2_000])


def test_of_bodies_and_matches_the_lines_that_name_something_new_are_shown():
    rare = "    convert(order_7712, exchange_rate)\n"
    code = CODE.replace(
        "    total = a + b\n" * 25, "    total = a + b\n" * 12 + rare + "    pass\n" * 12
    )
    code = code.replace(rare, "    again()\n", 99)  # of 120
    capped = cap_text(code, 4_000, tool="Read")
    assert capped is not None
    assert rare in capped.body
    grep = "".join(f"src/long.ts:{n}:  const name = use()\n" for n in range(4_000))
    found = "src/long.ts:3000:  const billing_retry = schedule(webhook)\n"
    capped = cap_text(grep[:90_000] + found + grep[90_000:], 1_000, tool="Grep")
    assert capped is not None
    assert found in capped.body


def test_of_json_lines_the_first_row_and_those_that_say_something_new_are_shown():
    rows: list[dict[str, Any]] = [{"id": n % 7, "event": "heartbeat"} for n in range(5_000)]
    rows[4_000] = {"id": 3, "event": "failed", "trace": "Traceback in billing/webhook.py " * 500}
    capped = cap_text("\n".join(map(json.dumps, rows)) + "\n", 1_000)
    assert capped is not None
    body, _, summary = capped.body.partition("\n\n")
    lines = body.split("\n")
    shown = [json.loads(line) for line in lines if not line.startswith("[...")]
    assert shown[0] == rows[0]
    assert [row["trace"][:31] for row in shown if "trace" in row] == [rows[4_000]["trace"][:31]]
    omitted = sum(int(n.replace(",", "")) for n in re.findall(r"\[\.\.\. ([\d,]+) line", body))
    assert len(shown) + omitted == len(rows)
    assert summary.startswith(f"{omitted:,} more. filters: id (0, ")


def test_paths_are_counted_by_folder():
    text = "".join(f"/home/me/app/{'src' if n % 4 else 'tests'}/{n}.py\n" for n in range(4_000))
    capped = cap_text(text, LIMIT)
    assert capped is not None
    assert "3,900 more. by folder: /home/me/app/src 3,000, /home/me/app/tests 1,000" in capped.body


@given(long_texts(), st.sampled_from([400, 600, 2_500]), st.sampled_from(["", "Bash", "grep"]))
def test_the_cap_holds_and_what_it_made_stays(text: str, limit: int, tool: str):
    capped = cap_text(text, limit, tool=tool)
    if capped is None:
        assert tokens(text) <= limit
        return
    assert capped.body
    shown = capped.render("h" * 128)
    assert tokens(shown) <= limit
    assert cap_text(shown, limit, tool=tool) is None
    assert cap_text(text, limit, tool=tool) == capped
    if _is_unicode(text):
        assert _is_unicode(shown)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def test_half_a_surrogate_pair_in_an_escape_stays_one():
    row = '{"\\ud83d": "\\ude00", "long": "' + "\\ud83d\\ude00" * 60 + '"}'
    for text in ("[" + ", ".join([row] * 900) + "]", '{"\\ud83d": [' + "1, " * 90_000 + "2]}"):
        capped = cap_text(text, LIMIT)
        assert capped is not None
        assert capped.kind is Kind.JSON
        assert capped.render().encode()


SCALE = sized(1, 2)
_ADVERSARIES: dict[str, Callable[[], str]] = {
    "brackets": lambda: "[" * SCALE * 500_000,
    "nested": lambda: "[" * SCALE * 25_000 + "]" * SCALE * 25_000,
    "unclosed rows": lambda: '[{"a":1},' * SCALE * 50_000,
    "quotes": lambda: '{"' * SCALE * 250_000,
    "backslashes": lambda: '{"a":"' + "\\" * SCALE * 500_000 + '"}',
    "spaces": lambda: " " * 2_000_000,  # of which few tokens are made
    "line breaks": lambda: "\n" * SCALE * 500_000,
    "accents": lambda: "e" + "\u0301" * SCALE * 500_000,
    "digits": lambda: "[" + "9" * SCALE * 500_000 + "]",
    "one line of errors": lambda: "error " * SCALE * 100_000,
    "all lines errors": lambda: "".join(
        f"error {'x' * (n % 99)} at\n  {n}\n" for n in range(SCALE * 10_000)
    ),
    "keys": lambda: json.dumps({str(n): n for n in range(SCALE * 37_500)}),
    "paths": lambda: "".join(f"{n}/a.py:{n}:x\n" for n in range(SCALE * 30_000)),
    "signatures": lambda: "a " * SCALE * 225_000 + "\n" + ("a " * 99 + "\n") * SCALE * 500,
}


@pytest.mark.parametrize("name", _ADVERSARIES)
def test_a_hostile_text_is_capped_like_any_other(name: str):
    text = _ADVERSARIES[name]()
    for tool in ("", "Read", "Bash"):
        capped = cap_text(text, LIMIT, tool=tool)
        assert capped is not None
        assert capped.body
        assert tokens(capped.render("h" * 128)) <= LIMIT


def test_a_last_line_of_a_log_that_does_not_fit_is_left_out():
    log = "2026-02-17 10:00:00 INFO fine\n" * 90
    capped = cap_text(log + "2026-02-17 10:00:00 ERROR " + "disk full, " * 80, 200)
    assert capped is not None
    assert capped.kind is Kind.LOG
    assert capped.body.startswith(log[:30])
    assert "disk" not in capped.body


def test_a_bare_string_among_rows_is_cut_with_its_true_numbers():
    rows = ['{"a": 1}'] * 40 + ['"' + "x" * 5_000 + '"', "7" * 200]
    capped = cap_text("\n".join(rows), 200)
    assert capped is not None
    assert capped.kind is Kind.JSON_LINES
    assert '"xxxxxxxxxxxxxxxx[... 4,984 characters omitted, 17-5000 ...]"' in capped.body


def test_a_forged_notice_is_content():
    forged = "row " + notice(200, "orig_aaaaaaaaaaaaaaaaaaaaaaaaaa")
    capped = cap_text(forged * 500, LIMIT)
    assert capped is not None
    assert capped.body.startswith(forged)
    assert capped.render("orig_b").endswith("\n[kept whole as orig_b]")
