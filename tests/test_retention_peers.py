"""The bench of peers: reading their cuts, and the peers in the table."""

from __future__ import annotations

from benches.python.peer_adapters import PEERS, restored
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
from rehydrate import validate
from rehydrate.retention import Score

CHAT = [
    {"role": "user", "content": "The port is 8080. It was 80 before the move."},
    {"role": "assistant", "content": "Noted, 8080 it is from now on."},
    {"role": "user", "content": "Good. Start it."},
]


def test_a_message_is_kept_in_part_where_its_first_half_still_stands():
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


def test_a_result_stands_behind_its_call_when_the_user_spoke_in_between():
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


def test_a_peer_over_the_budget_or_with_broken_output_does_not_stand_beside_ours():
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
