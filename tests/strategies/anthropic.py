"""Conversations of Anthropic's Messages API, and the transcripts of Claude Code."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import strategies as st

from tests.strategies.parts import Draw, Entry, inputs, names, text_block, texts

_IMAGE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


@st.composite
def anthropic_conversations(draw: Draw, max_turns: int = 8) -> list[Entry]:
    """Generate Anthropic messages that the API takes; they may end in an open tool loop."""
    ids = map("toolu_{:03}".format, count())
    entries: list[Entry] = []
    if draw(st.booleans()):
        entries.append({"role": "system", "content": draw(texts)})
    entries.append({"role": "user", "content": draw(texts)})
    for _ in range(draw(st.integers(0, max_turns))):
        kinds = ["user", "assistant", "thought", "server", "tool", "tool", "system"]
        kind = draw(st.sampled_from(kinds))
        if kind == "user":
            entries.append({"role": "user", "content": draw(_user_contents())})
        elif kind == "system":
            entries += draw(_system_amid(entries[-1]["role"]))
        elif kind == "assistant":
            entries.append({"role": "assistant", "content": draw(texts)})
        elif kind == "thought":
            # A thought and what follows from it, as two messages that the API joins.
            entries.append({"role": "assistant", "content": [draw(_thoughts())]})
            entries.append({"role": "assistant", "content": [text_block(draw(texts))]})
        elif kind == "server":
            entries += draw(_server_rounds(next(ids)))
        else:
            entries += draw(_anthropic_rounds([next(ids) for _ in range(draw(st.integers(1, 3)))]))
    if draw(st.booleans()):
        entries.append({"role": "assistant", "content": [draw(_calls(next(ids)))]})
    marked = draw(st.lists(st.integers(0, len(entries) - 1), unique=True, max_size=4))
    for place in marked:
        _mark_for_cache(entries[place])
    return entries


@st.composite
def _system_amid(draw: Draw, role_before: str) -> list[Entry]:
    """A system message where the API takes one, between the user's and the assistant's."""
    user = {"role": "user", "content": draw(texts)}
    tool = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Read"}}
    system = {"role": "system", "content": draw(st.one_of(texts, st.just([tool])))}
    reply = {"role": "assistant", "content": draw(texts)}
    return [*([] if role_before == "user" else [user]), system, reply]


def _thoughts() -> st.SearchStrategy[Entry]:
    return st.one_of(
        texts.map(lambda text: {"type": "thinking", "thinking": text, "signature": "c2ln"}),
        st.just({"type": "redacted_thinking", "data": "b3BhcXVl"}),
    )


def _calls(call_id: str) -> st.SearchStrategy[Entry]:
    return st.builds(
        lambda name, value: {"type": "tool_use", "id": call_id, "name": name, "input": value},
        names,
        inputs,
    )


def _user_contents() -> st.SearchStrategy[Any]:
    blocks = st.one_of(
        texts.map(text_block),
        st.just({"type": "image", "source": _IMAGE}),
        texts.map(
            lambda text: {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": text},
            }
        ),
        texts.map(lambda text: {"type": "from_the_future", "payload": {"note": text}}),
    )
    return st.one_of(texts, st.lists(blocks, min_size=1, max_size=3))


def _result_contents() -> st.SearchStrategy[Any]:
    blocks = st.one_of(texts.map(text_block), st.just({"type": "image", "source": _IMAGE}))
    return st.one_of(texts, st.just(""), st.lists(blocks, max_size=3))


@st.composite
def _anthropic_rounds(draw: Draw, ids: list[str]) -> list[Entry]:
    lead: list[Entry] = []
    if draw(st.booleans()):
        lead.append(draw(_thoughts()))
    if draw(st.booleans()):
        lead.append(text_block(draw(texts)))
    calls = [draw(_calls(call_id)) for call_id in ids]
    results = [
        {"type": "tool_result", "tool_use_id": call_id, "content": draw(_result_contents())}
        for call_id in draw(st.permutations(ids))
    ]
    after = [text_block(draw(texts))] if draw(st.booleans()) else []
    if len(calls) > 1 and draw(st.booleans()):
        spoken = [[*lead, calls[0]], calls[1:]]
    else:
        spoken = [[*lead, *calls]]
    return [
        *({"role": "assistant", "content": blocks} for blocks in spoken),
        {"role": "user", "content": [*results, *after]},
    ]


@st.composite
def _server_rounds(draw: Draw, call_id: str) -> list[Entry]:
    call_id = f"srv{call_id}"
    call = {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_result", "title": draw(texts), "encrypted_content": "RW5j"}
    result = {"type": "web_search_tool_result", "tool_use_id": call_id, "content": [found]}
    if draw(st.booleans()):  # a paused turn: the result opens the next message
        return [
            {"role": "assistant", "content": [call]},
            {"role": "assistant", "content": [result, text_block(draw(texts))]},
        ]
    return [{"role": "assistant", "content": [call, result, text_block(draw(texts))]}]


def _mark_for_cache(entry: Entry) -> None:
    content = entry["content"]
    if entry["role"] == "system" or not isinstance(content, list):
        return
    if content[-1]["type"] in ("text", "tool_use", "tool_result"):
        content[-1]["cache_control"] = {"type": "ephemeral"}


@st.composite
def claude_code_transcripts(draw: Draw, max_turns: int = 6) -> list[Entry]:
    """Generate transcript lines as Claude Code writes them, with ignored lines of all kinds."""
    uuids = map("uuid-{:04}".format, count())

    def line(kind: str, **rest: Any) -> Entry:
        return {"type": kind, "uuid": next(uuids), "sessionId": "s", "isSidechain": False, **rest}

    def said(role: str, content: Any, message_id: str | None = None, **rest: Any) -> Entry:
        message = {"role": role, "content": content}
        if message_id:
            message["id"] = message_id
        return line(role, message=message, **rest)

    entries = [said("user", draw(texts))]
    for turn in range(draw(st.integers(0, max_turns))):
        kind = draw(st.sampled_from(["user", "meta", "summary", "text", "tool", "tool", "tool"]))
        if kind == "user":
            entries.append(
                said("user", draw(st.one_of(texts, texts.map(lambda t: [text_block(t)]))))
            )
        elif kind == "meta":
            entries.append(said("user", draw(texts), isMeta=True))
        elif kind == "summary":
            entries.append(line("system", subtype="compact_boundary", content="compacted"))
            entries.append(said("user", draw(texts), isCompactSummary=True))
        else:
            message_id = f"msg_{turn}"
            leads = st.lists(
                st.one_of(st.just(text_block("\n\n")), texts.map(text_block), _thoughts()),
                max_size=2,
            )
            blocks = [*draw(leads), text_block(draw(texts))]
            entries += [said("assistant", [block], message_id) for block in blocks]
            if kind == "tool":
                waiting: list[str] = []
                for number in range(draw(st.integers(1, 3))):
                    call = draw(_calls(f"toolu_{turn}_{number}"))
                    waiting.append(call["id"])
                    entries.append(said("assistant", [call], message_id))
                    # The first results may come before the last calls are written.
                    if draw(st.booleans()):
                        entries.append(said("user", [_result(waiting.pop(0))]))
                entries += [said("user", [_result(call_id)]) for call_id in waiting]
    noise = {
        "progress": lambda: line("progress", data={"type": "hook_progress"}),
        "snapshot": lambda: {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        "queue": lambda: {"type": "queue-operation", "operation": "enqueue", "sessionId": "s"},
        "sidechain": lambda: (
            said("assistant", [text_block("aside")], "msg_s") | {"isSidechain": True}
        ),
        "error": lambda: said("assistant", [text_block("API Error")]) | {"isApiErrorMessage": True},
        "repeated": lambda: dict(entries[0]),
    }
    for kind in draw(st.lists(st.sampled_from(sorted(noise)), max_size=6)):
        entries.insert(draw(st.integers(1, len(entries))), noise[kind]())
    return entries


def _result(call_id: str) -> Entry:
    return {"type": "tool_result", "tool_use_id": call_id, "content": f"result of {call_id}"}
