"""Echo removal: what is above is referred to, and can be got back whatever happens to it."""

from __future__ import annotations

import copy
import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate import formats, validate
from rehydrate.errors import UnknownHandleError
from rehydrate.prompt import Caps, CapToolResults, HeldOriginals, RemoveEchoes
from rehydrate.prompt.caps import remove_echoes
from tests.prompt.long_texts import (
    Target,
    answered,
    held,
    ir_of,
    long_conversations,
    result_texts,
)
from tests.prompt.test_cap_pass import Broken
from tests.sizes import sized

FILE = "\n".join(f"line {n} of the file does {n * 7} things" for n in range(312))
OTHER = "\n".join(f"row {n} of another has {n * 11} fields" for n in range(312))
HANDLE = re.compile(r"kept whole as (orig_[a-z2-7]{26})\]")


def gotten(originals: HeldOriginals, handle: str) -> str | None:
    """Return the text of the handle; None if it is a forged one."""
    try:
        return originals.get(handle)
    except UnknownHandleError:
        return None


def shown(entries: Any) -> list[str]:
    return result_texts(entries, "anthropic")


def test_the_same_file_read_twice_is_referred_to():
    originals = held()
    made = RemoveEchoes()(ir_of(answered(FILE, "ok", FILE)), Target(originals))
    first, _, last = shown(made.history.entries)
    assert first == FILE
    handle = HANDLE.search(last)[1]
    assert last == (
        f"[same as the result of call toolu_0 (Read) above: 312 lines. kept whole as {handle}]"
    )
    assert originals.get(handle) == FILE
    assert made.meta.trace[-1].changed == ("history[6]",)
    assert made.meta.trace[-1].notes == (f"history[6] 312 lines stand above, {handle}",)


def test_what_was_added_to_a_file_stays_and_the_rest_is_referred_to():
    lines = FILE.split("\n")
    edited = "\n".join([*lines[:150], "a new line", *lines[150:]])
    made = RemoveEchoes()(ir_of(answered(FILE, edited)), Target(held()))
    last = shown(made.history.entries)[-1].split("\n")
    assert [re.sub("orig_.*", "", line) for line in last] == [
        "[same as lines 1-150 of the result of call toolu_0 (Read) above: 150 lines. "
        "kept whole as ",
        "a new line",
        "[same as lines 151-312 of the result of call toolu_0 (Read) above: 162 lines. "
        "kept whole as ",
    ]


def test_a_tool_that_says_its_input_again_is_cut_short_line_numbers_aside():
    numbered = "\n".join(f"{n:6}→{line}" for n, line in enumerate(FILE.split("\n"), 1))
    entries = answered(f"The file was updated:\n{numbered}", tool="Write")
    entries[1]["content"][0]["input"] = {"path": "a.py", "content": FILE}
    made = RemoveEchoes()(ir_of(entries), Target(held()))
    said = shown(made.history.entries)[0]
    assert said.startswith(
        "The file was updated:\n"
        "[same as the input of call toolu_0 (Write) above: 312 lines, line numbers aside. kept"
    )


def test_a_table_whose_rows_differ_in_their_first_column_is_no_echo():
    tables = [
        "\n".join(f"{n}\tthe check went well, nothing to report" for n in range(k, k + 99))
        for k in (0, 500)
    ]
    made = RemoveEchoes()(ir_of(answered(*tables)), Target(held()))
    assert shown(made.history.entries) == tables


def test_one_long_line_is_an_echo_too():
    row = json.dumps([{"flight": f"HAT{n}", "price": n} for n in range(200)])
    made = RemoveEchoes()(ir_of(answered(row, row, tool="search")), Target(held()))
    assert shown(made.history.entries)[1].startswith("[same as the result of call toolu_0 (search)")


def test_what_the_user_pasted_is_referred_to_and_never_shortened():
    entries = [
        {"role": "user", "content": FILE},
        *answered(FILE)[1:],
        {"role": "user", "content": FILE},
    ]
    made = RemoveEchoes()(ir_of(entries), Target(held())).history.entries
    assert made[0] is entries[0]
    assert made[-1] is entries[-1]
    assert "same as what the user said above: 312 lines" in shown(made)[0]


def test_what_was_capped_is_not_referred_to():
    originals = held()
    cap = CapToolResults(Caps(default_tokens=2_000))
    ir = cap(ir_of(answered(FILE + OTHER, FILE[:5_000])), Target(originals))
    made = RemoveEchoes()(ir, Target(originals))
    assert made.meta.trace[0].changed == ("history[2]",)
    assert made.meta.trace[1].changed == ()
    assert made.history.entries[4] is ir.history.entries[4]


def test_a_reference_is_not_referred_to():
    made = RemoveEchoes()(ir_of(answered(FILE, FILE, FILE)), Target(held()))
    _, second, third = shown(made.history.entries)
    assert "call toolu_0" in second
    assert "call toolu_0" in third


def test_short_repetitions_stay():
    made = RemoveEchoes()(ir_of(answered(FILE[:900], FILE[:900])), Target(held()))
    assert shown(made.history.entries) == [FILE[:900]] * 2


def test_without_originals_nothing_is_removed():
    entries = answered(FILE, FILE)
    made = remove_echoes(ir_of(entries), Target())
    assert list(made.history.entries) == entries
    assert "no place to keep the originals" in made.meta.trace[-1].notes[0]


def test_what_cannot_be_kept_stays_and_the_ir_says_so():
    made = RemoveEchoes()(ir_of(answered(FILE, FILE)), Target(Broken()))
    assert shown(made.history.entries) == [FILE] * 2
    assert "OSError; the result stays whole" in made.meta.degraded[0]


def test_a_forged_reference_is_content():
    forged = "[same as the result of call toolu_9 above: 312 lines. kept whole as orig_b]\n" * 40
    made = RemoveEchoes()(ir_of(answered(forged)), Target(held()))
    assert shown(made.history.entries) == [forged]


def test_parallel_calls_of_one_result_are_referred_to_the_first():
    entries = answered(FILE)
    call, answer = entries[1]["content"][0], entries[2]["content"][0]
    for name in ("toolu_b", "toolu_c"):
        entries[1]["content"].append(call | {"id": name})
        entries[2]["content"].append(answer | {"tool_use_id": name})
    made = RemoveEchoes()(ir_of(entries), Target(held()))
    first, second, third = shown(made.history.entries)
    assert first == FILE
    assert second == third
    assert "call toolu_0" in second


def test_two_histories_that_part_do_not_mix():
    remove = RemoveEchoes()
    begin = answered(FILE)
    one = begin + answered("x", FILE)[3:]
    other = begin + answered("x", OTHER, OTHER)[3:]
    for _ in range(2):
        for entries in (one, other, begin, one[:3]):
            made = remove(ir_of(entries), Target(held())).history.entries
            assert made == RemoveEchoes()(ir_of(entries), Target(held())).history.entries


def test_threads_may_share_a_pass():
    remove, cap = RemoveEchoes(), CapToolResults(Caps(default_tokens=2_000))
    histories = [answered(FILE[: 6_000 + n], OTHER, FILE[: 6_000 + n], FILE) for n in range(12)]

    def work(number: int) -> tuple[Any, ...]:
        ir = cap(ir_of(histories[number % 12]), Target(held()))
        return remove(ir, Target(held())).history.entries

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(work, range(96)))
    assert made == [work(number) for number in range(96)]


@given(long_conversations(), st.data())
def test_the_laws_hold_in_every_format(named, data):
    name, entries = named
    if name == "claude_code":
        entries = [entry for entry in entries if not entry.get("isSidechain")]
    before = copy.deepcopy(entries)
    originals = held()
    remove = RemoveEchoes()
    whole = remove(ir_of(entries, name), Target(originals))
    made = list(whole.history.entries)
    assert entries == before
    assert validate(made, name) == validate(entries, name)
    assert whole.history.messages == formats.parse(made, name).messages
    assert remove(whole, Target(originals)).history == whole.history
    for was, now in zip(result_texts(entries, name), result_texts(made, name), strict=True):
        if was != now:
            assert len(now) < len(was)
            assert was in [gotten(originals, handle) for handle in HANDLE.findall(now)]
    count = data.draw(st.integers(0, len(entries)))
    for each in (remove, RemoveEchoes()):
        part = each(ir_of(entries[:count], name), Target(held()))
        assert list(part.history.entries) == made[:count]


@pytest.mark.parametrize("line", ["", "x", "error " * 9])
def test_a_hostile_repetition_takes_linear_time(line: str):
    times = sized(1, 2)
    text = (line + "\n") * times * 50_000
    nearly = ("y\n" + (line + "\n") * 50) * times * 1_000
    made = RemoveEchoes()(ir_of(answered(text, nearly, text)), Target(held()))
    assert formats.parse(made.history.entries, "anthropic")
    assert shown(made.history.entries)[2].startswith("[same as")
