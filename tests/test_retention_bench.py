"""The bench of retention: its sources, equal sizes, plain coverage, oracles, and its report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benches.python.peer_adapters import PEERS, restored
from benches.python.retention import (
    measure_case,
    measure_source,
    of_cut,
    of_question,
    other_names_in,
    plain_coverage,
)
from benches.python.retention_peers import (
    HEADER,
    OURS,
    Case,
    Measured,
    as_chat,
    cells,
    measure,
    row,
)
from benches.python.sources import all_conversations, read_beam, read_sources
from benches.report.figures import Figures
from benches.report.sections.retention import overall, retention, rows, tables
from rehydrate import compact_context, validate
from rehydrate.retention import Score, exact_cost, steps
from rehydrate.retention.measure import score_cut
from tests.retention.sessions_made import work

CODE = "def total(rows: dict[str, int]) -> int:\n    # the header counts once\n    return sum(rows)"


def _session(seed: int) -> list[dict[str, Any]]:
    """Return a session that reads files and, at its end, edits one that it read early."""
    messages = work(40, seed)
    messages[4] = _result(messages[4], CODE)
    call = {"path": f"src/mod_{seed}/file_1.py", "old": CODE, "new": "pass"}
    use = {"type": "tool_use", "id": "e", "name": "edit", "input": call}
    done = {"type": "tool_result", "tool_use_id": "e", "content": "ok"}
    long = {"role": "user", "content": "Now mend what you have read, all of it. " * 40}
    return [
        *messages,
        long,
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [done]},
    ]


def _result(message: dict[str, Any], text: str) -> dict[str, Any]:
    (block,) = message["content"]
    return {**message, "content": [{**block, "content": text}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of conversations, laid out like the real ones."""
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    for seed, kind in enumerate(("claude-code", "pi", "codex", "research")):
        session = {
            "name": f"{kind}:{seed}",
            "kind": kind,
            "format": "anthropic",
            "messages": _session(seed),
        }
        (fresh / f"{kind}.json").write_text(json.dumps(session))
    long = "\n".join(f"Line {n} of the plan says little." for n in range(150))
    said = "\n".join([long[:2500], "The sprint ends on the ninth of May.", long[2500:]])
    chat = [
        message
        for n in range(12)
        for message in (
            {"role": "user", "content": f"Tell me more of topic {n}."},
            {"role": "assistant", "content": said if n == 3 else f"Topic {n} is dull. {long}"},
        )
    ]
    question = {"question": "When does the sprint end?", "evidence": [7], "kind": "x"}
    beam = [{"name": "chat", "messages": chat, "questions": [question]}]
    (fresh / "beam.json").write_text(json.dumps(beam))
    return tmp_path


def test_sessions_are_grouped_by_source_and_a_new_kind_is_one_of_its_own(folder: Path) -> None:
    found = {source.name: source for source in read_sources(folder, ("coding", "research"))}
    assert list(found) == ["coding", "research"]
    assert {cut.session for cut in found["coding"].cuts} == {"claude-code:0", "pi:1", "codex:2"}
    assert found["coding"].title == "coding (fresh)" and found["coding"].kind == "cuts"
    with pytest.raises(SystemExit, match="no source 'coddling'; choose from coding, "):
        list(read_sources(folder, ("coddling",)))


def test_every_method_is_given_the_size_that_compact_context_needed(folder: Path) -> None:
    (source,) = read_sources(folder, ("coding",))
    found = measure_source(source, [0.02, 0.3], (), 1)
    assert (found["sessions"], found["cases"]) == (3, 15)
    assert found["cases_with_lines"] > 0
    whole = found["methods"]["whole"]
    assert whole["asked"]["0.02"] == 0.02 < whole["got"]["0.02"], "its pins are more than that"
    for name, figures in found["methods"].items():
        if name == "whole" or name.startswith("vague"):
            continue
        for ratio in ("0.02", "0.3"):
            at_least = max(float(ratio), whole["got"][ratio])
            assert figures["asked"][ratio] >= at_least - 1e-9, name
            if name not in ("context", "chitta"):
                assert figures["got"][ratio] <= figures["asked"][ratio] + 1e-9, name
    assert found["methods"]["vague query"]["asked"] == whole["asked"]
    blocks = found["methods"]["oracle lines, blocks"]["lines"]["mean"]["0.3"]
    assert blocks == 1.0 >= found["methods"]["oracle names"]["lines"]["mean"]["0.3"]


def test_a_pair_is_compared_case_by_case(folder: Path) -> None:
    (source,) = read_sources(folder, ("coding",))
    found = measure_source(source, [0.3], ("whole", "last"), 1)
    less = found["pairs"]["whole less last"]["retained"]["mean"]["0.3"]
    means = [found["methods"][name]["retained"]["mean"]["0.3"] for name in ("whole", "last")]
    assert less == pytest.approx(means[0] - means[1])
    assert list(found["pairs"]) == ["whole less last"]


def test_plain_coverage_keeps_the_same_pins_and_whole_steps(folder: Path) -> None:
    (source,) = read_sources(folder, ("research",))
    cut, cost = source.cuts[-1], exact_cost()
    kept = plain_coverage(cut, cost, other_names_in)(cut.messages, None, 0.3)
    total = sum(map(cost, cut.messages))
    assert 0.1 * total < sum(map(cost, kept)) <= 0.3 * total
    indices = {i for i, message in enumerate(cut.messages) if any(message is k for k in kept)}
    pins = set(compact_context(cut.messages, budget_tokens=1).indices)
    assert pins < indices
    for step in steps(cut.messages):
        if not pins & set(step):
            assert len(indices & set(step)) in (0, len(step))


def test_a_method_is_scored_once_for_each_ratio_and_named_ones_alone(folder: Path) -> None:
    (source,) = read_sources(folder, ("research",))
    runs = of_cut(source.cuts[0], exact_cost())
    found = measure_case(runs, (0.1, 0.3), ("last", "no such method"))
    assert list(found) == ["last"]
    assert [score.ratio for score in found["last"]] == [0.1, 0.3]


def test_of_evidence_that_is_kept_in_part_its_text_is_measured_too(folder: Path) -> None:
    (chat,) = read_beam(folder / "fresh" / "beam.json")
    runs = of_question(chat, 0, exact_cost(), {})
    whole, part = runs["whole"](0.05), runs["excerpts"](0.05)
    assert (whole.retained, whole.text) == (0.0, 0.0)
    assert part.retained == 1.0 and 0 < part.text < 0.9
    assert part.asked == 0.05 and part.cost_ratio <= 0.05


def test_two_measurements_are_the_same(folder: Path) -> None:
    def measured() -> str:
        (source,) = read_sources(folder, ("research",))
        return json.dumps(measure_source(source, [0.2], (), 1), sort_keys=True)

    assert measured() == measured()


def test_the_laws_are_counted_on_every_conversation(folder: Path) -> None:
    (folder / "claude_code").mkdir()
    for name in ("airline_dev.json", "locomo_dev.json"):
        (folder / name).write_text("[]")
    assert len(all_conversations(folder)) == 5


def test_the_report_has_every_source_with_its_counts_and_targets(folder: Path) -> None:
    found = {
        source.name: measure_source(source, None, ("whole", "excerpts", "coverage"), 1)
        for source in read_sources(folder, ("coding", "beam"))
    }
    found = json.loads(json.dumps(found))
    of = Figures({}, None, found, {})
    text = "\n".join(retention(of))
    assert "## Retention: coding (fresh)" in text and "3 sessions, 15 cases" in text
    assert "python -m benches.python.retention --sources beam" in text
    assert "evidence present, 1 sessions, 1 cases" in text
    wanted = {row.case: row for row in rows(of)}
    case = "coding (fresh), 3 sessions: lines typed again, excerpts, at 0.2"
    value = found["coding"]["methods"]["excerpts"]["lines"]["mean"]["0.2"]
    assert (wanted[case].value, wanted[case].want) == (value, 0.48)
    assert wanted["coding (fresh), 3 sessions: names, whole less coverage, at 0.4"].want == 0.0
    assert all(row.limit for row in wanted.values())
    titles = [title for title, _, _ in tables(found["coding"])]
    assert titles[0].startswith("names used later") and titles[1].startswith("lines typed again")
    assert len(list(overall(found))) == 1


def test_a_cut_is_scored_by_both_measures(folder: Path) -> None:
    (source,) = read_sources(folder, ("coding",))
    cut = next(cut for cut in source.cuts if cut.lines)
    assert {"def", "#", "return"} <= {line.split(" ")[0] for line in cut.lines}
    score = score_cut(cut, lambda messages, *_: messages, 1.0, exact_cost())
    assert (score.retained, score.lines) == (1.0, 1.0)


# The bench of peers: reading their cuts, and the peers in the table.


CHAT = [
    {"role": "user", "content": "The port is 8080. It was 80 before the move."},
    {"role": "assistant", "content": "Noted, 8080 it is from now on."},
    {"role": "user", "content": "Good. Start it."},
]


def test_a_message_is_kept_in_part_if_its_first_half_is_still_there():
    shortened = CHAT[0]["content"][:30]
    kept = restored(CHAT, [(0, shortened), (1, "[cleared]"), (2, None)])
    assert kept == [{**CHAT[0], "content": shortened}, {**CHAT[1], "content": "[cleared]"}, CHAT[2]]
    assert kept[2] is CHAT[2]
    assert kept.indices == (0, 2)


def test_what_a_summary_quotes_is_kept_in_part_and_the_question_is_taken_off():
    kept = restored(CHAT, [(None, "Summary: Noted, 8080 it is"), (2, None), (3, None)])
    assert kept == [{"role": "user", "content": "Summary: Noted, 8080 it is"}, CHAT[2]]
    assert kept.indices == (1, 2)


def test_trim_messages_gives_back_the_very_messages_and_is_timed():
    trim = next(peer for peer in PEERS if peer.name == "trim_messages, human or ai")
    kept = trim(CHAT, "Which port?", 0.5)
    assert list(map(id, kept)) == [id(CHAT[2])]
    assert kept.seconds > 0


def test_a_result_is_after_its_call_when_the_user_spoke_in_between():
    spoken = [
        {"role": "user", "content": "List it."},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "ls", "input": {"path": "src"}}],
        },
        {"role": "user", "content": "And hurry."},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
    ]
    chat = as_chat(spoken)
    assert [message["role"] for message in chat] == ["user", "assistant", "tool", "user"]
    assert validate(chat, "openai_chat") == []


def scored(method: str, retained: float, cost: float = 0.2, violations: int = 0) -> Measured:
    scores = [
        Score(name, 0.2, retained, cost, session=name, violations=violations) for name in "ab"
    ]
    return Measured(method, scores, scores)


def test_a_peer_over_the_budget_or_with_broken_output_is_not_compared():
    found = [
        scored("honest", 0.5),
        scored("too much", 0.9, cost=0.3),
        scored("broken", 0.8, violations=1),
        Measured("absent", [], [], "ImportError: absent"),
        scored(OURS, 0.7),
    ]
    beside = row("made", 0.2, found)
    assert (beside.value, beside.beside) == (0.7, "honest 0.50")


def test_a_peer_that_fails_says_why_in_its_line():
    def fails(*_: object) -> list[dict[str, str]]:
        raise ValueError("no tokenizer\nat all")

    def score(compact, ratio):
        compact(CHAT, None, ratio)

    line = cells(measure([Case(CHAT, score)], "peer", fails, fails))
    assert line[:2] == ["peer", "not measured: ValueError: no tokenizer"]
    assert len(line) == len(HEADER) - 1
