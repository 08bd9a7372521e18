"""Hypothesis strategies: valid conversations of every format, subsets of units, small damages.

anthropic_conversations()   openai_chat_conversations()   openai_responses_items()
claude_code_transcripts()   plain_conversations()         langchain_messages()
bedrock_conversations()     codex_rollouts()     gemini_conversations()
ai_sdk_conversations()      ai_sdk_ui_conversations()
conversations()             (format name, entries) of any of them
damaged(entries)            the same with one to three entries dropped, doubled, swapped ...
kept_units(conversation)    positions of units that a compaction may keep
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator
from itertools import count
from typing import Any

from hypothesis import strategies as st

from rehydrate.messages import Conversation, Unit

Entry = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

_WORDS = st.sampled_from(
    [
        "the",
        "engine",
        "reads",
        "src/app.py",
        "and",
        "fails:",
        "0x7f;",
        "`x = 1`",
        "שלום",
        "世界",
        "🙂",
    ]
)
texts = st.lists(_WORDS, min_size=1, max_size=12).map(" ".join)
names = st.sampled_from(["Read", "Bash", "get_user_details", "search"])
inputs = st.dictionaries(
    st.sampled_from(["path", "command", "limit", "nested"]),
    st.one_of(texts, st.integers(), st.booleans(), st.none(), st.lists(texts, max_size=2)),
    max_size=3,
)
_IMAGE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


def anthropic_conversations(max_turns: int = 8) -> st.SearchStrategy[list[Entry]]:
    """Generate Anthropic messages that the API takes; they may end in an open tool loop."""
    return _anthropic(max_turns)


@st.composite
def _anthropic(draw: Draw, max_turns: int) -> list[Entry]:
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
            entries.append({"role": "assistant", "content": [_text(draw(texts))]})
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


def _text(text: str) -> Entry:
    return {"type": "text", "text": text}


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
        texts.map(_text),
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
    blocks = st.one_of(texts.map(_text), st.just({"type": "image", "source": _IMAGE}))
    return st.one_of(texts, st.just(""), st.lists(blocks, max_size=3))


@st.composite
def _anthropic_rounds(draw: Draw, ids: list[str]) -> list[Entry]:
    lead: list[Entry] = []
    if draw(st.booleans()):
        lead.append(draw(_thoughts()))
    if draw(st.booleans()):
        lead.append(_text(draw(texts)))
    calls = [draw(_calls(call_id)) for call_id in ids]
    results = [
        {"type": "tool_result", "tool_use_id": call_id, "content": draw(_result_contents())}
        for call_id in draw(st.permutations(ids))
    ]
    after = [_text(draw(texts))] if draw(st.booleans()) else []
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
            {"role": "assistant", "content": [result, _text(draw(texts))]},
        ]
    return [{"role": "assistant", "content": [call, result, _text(draw(texts))]}]


def _mark_for_cache(entry: Entry) -> None:
    content = entry["content"]
    if entry["role"] == "system" or not isinstance(content, list):
        return
    if content[-1]["type"] in ("text", "tool_use", "tool_result"):
        content[-1]["cache_control"] = {"type": "ephemeral"}


def openai_chat_conversations(max_turns: int = 8) -> st.SearchStrategy[list[Entry]]:
    """Generate OpenAI chat messages that the API takes; they may end in an open tool loop."""
    return _openai_chat(max_turns)


@st.composite
def _openai_chat(draw: Draw, max_turns: int) -> list[Entry]:
    # Some servers number the calls of every turn from the start.
    is_local = draw(st.booleans())
    numbers = count()
    entries: list[Entry] = []
    if draw(st.booleans()):
        entries.append({"role": draw(st.sampled_from(["system", "developer"])), "content": "Be."})
    for _ in range(draw(st.integers(1, max_turns))):
        if is_local:
            numbers = count()
        ids = map("call_{:03}".format, numbers)
        kind = draw(st.sampled_from(["user", "assistant", "function", "tool", "tool"]))
        if kind == "user":
            part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
            parts = [_text(draw(texts)), part]
            entries.append({"role": "user", "content": draw(st.sampled_from([parts, "hello"]))})
        elif kind == "assistant":
            entries.append({"role": "assistant", "content": draw(texts), "tool_calls": None})
        elif kind == "function":
            name = draw(names)
            call = {"name": name, "arguments": "{}"}
            entries.append({"role": "assistant", "content": None, "function_call": call})
            entries.append({"role": "function", "name": name, "content": draw(texts)})
        else:
            called = [next(ids) for _ in range(draw(st.integers(1, 3)))]
            entries.append(draw(_openai_calls(called)))
            answered = draw(st.permutations(called))
            entries += [
                {"role": "tool", "tool_call_id": call_id, "content": draw(texts)}
                for call_id in answered
            ]
    if draw(st.booleans()):
        entries.append(draw(_openai_calls(["call_open_1", "call_open_2"])))
        if draw(st.booleans()):
            entries.append({"role": "tool", "tool_call_id": "call_open_2", "content": "half"})
    return entries


def _openai_calls(ids: list[str]) -> st.SearchStrategy[Entry]:
    def call(call_id: str, name: str) -> Entry:
        function = {"name": name, "arguments": '{"path": "a"}'}
        return {"id": call_id, "type": "function", "function": function}

    return st.builds(
        lambda content, name: {
            "role": "assistant",
            "content": content,
            "tool_calls": [call(call_id, name) for call_id in ids],
        },
        st.one_of(st.none(), texts),
        names,
    )


def openai_responses_items(max_turns: int = 8) -> st.SearchStrategy[list[Entry]]:
    """Generate Responses items that the API takes; they may end in an open tool loop."""
    return _openai_responses(max_turns)


@st.composite
def _openai_responses(draw: Draw, max_turns: int) -> list[Entry]:
    numbers = count()

    def item(kind: str, **rest: Any) -> Entry:
        return {"type": kind, "id": f"{kind}_{next(numbers):03}", **rest}

    def thoughts() -> list[Entry]:
        said = {"type": "summary_text", "text": draw(texts)}
        summaries = st.sampled_from([[], [said]])
        return [
            item("reasoning", summary=draw(summaries), encrypted_content="b3BhcXVl")
            for _ in range(draw(st.integers(0, 2)))
        ]

    def says() -> Entry:
        part = {"type": "output_text", "text": draw(texts), "annotations": []}
        return item("message", role="assistant", content=[part], status="completed")

    entries: list[Entry] = []
    if draw(st.booleans()):
        entries.append({"role": draw(st.sampled_from(["system", "developer"])), "content": "Be."})
    for _ in range(draw(st.integers(1, max_turns))):
        kinds = ["user", "easy", "said", "searched", "served", "mcp", "tool", "tool"]
        kind = draw(st.sampled_from(kinds))
        if kind == "user":
            image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
            parts = [{"type": "input_text", "text": draw(texts)}, image]
            entries.append({"role": "user", "content": draw(st.sampled_from([parts, "hello"]))})
        elif kind == "easy":
            entries.append({"role": "assistant", "content": draw(texts)})
        elif kind == "said":
            entries += [*thoughts(), says()]
        elif kind == "searched":
            action = {"type": "search", "query": draw(texts)}
            entries += [*thoughts(), item("web_search_call", action=action), *thoughts(), says()]
        elif kind == "served":
            entries += [*thoughts(), *draw(_served(item)), *draw(_responses_rounds(item, list))]
        elif kind == "mcp":
            request = item("mcp_approval_request", name=draw(names), arguments="{}")
            granted = {"approval_request_id": request["id"], "approve": True}
            entries += [*thoughts(), request, item("mcp_approval_response", **granted)]
            entries.append(
                item(
                    "mcp_call",
                    name=request["name"],
                    arguments="{}",
                    output=draw(texts),
                    approval_request_id=request["id"],
                )
            )
        else:
            entries += draw(_responses_rounds(item, thoughts))
    if draw(st.booleans()):
        calls = [
            item("function_call", call_id=f"open_{number}", name=draw(names), arguments="{}")
            for number in range(2)
        ]
        entries += [*thoughts(), *calls]
        if draw(st.booleans()):
            entries.append({"type": "function_call_output", "call_id": "open_1", "output": "half"})
    return entries


@st.composite
def _served(draw: Draw, item: Callable[..., Entry]) -> list[Entry]:
    """A call of a server's tool, and what the server answered in the middle of the turn."""
    kind = draw(st.sampled_from(["tool_search", "program", "shell"]))
    if kind == "tool_search":
        tools = [{"type": "function", "name": "Read", "description": draw(texts)}]
        found = item("tool_search_output", call_id=None, execution="server", tools=tools)
        return [item("tool_search_call", call_id=None, arguments={}), found]
    if kind == "program":
        program = item("program", code=draw(texts), fingerprint="f")
        program["call_id"] = f"call_{program['id']}"
        result = item("program_output", call_id=program["call_id"], result=draw(texts))
        return [program, result]
    call = item("shell_call", action={"commands": ["ls"]})
    call["call_id"] = f"call_{call['id']}"
    output = [{"stdout": draw(texts), "stderr": ""}]
    return [call, item("shell_call_output", call_id=call["call_id"], output=output)]


@st.composite
def _responses_rounds(
    draw: Draw, item: Callable[..., Entry], thoughts: Callable[[], list[Entry]]
) -> list[Entry]:
    calls: list[Entry] = []
    outputs: list[Entry] = []
    for _ in range(draw(st.integers(1, 3))):
        kind, rest = draw(
            st.sampled_from(
                [
                    ("function_call", {"name": "get", "arguments": '{"path": "a"}'}),
                    ("custom_tool_call", {"name": "patch", "input": "*** a"}),
                    ("computer_call", {"action": {"type": "click", "x": 1, "y": 2}}),
                    ("local_shell_call", {"action": {"type": "exec", "command": ["ls"]}}),
                    ("shell_call", {"action": {"commands": ["ls -l"]}}),
                ]
            )
        )
        call = item(kind, **rest)
        call["call_id"] = f"call_{call['id']}"
        calls.append(call)
        outputs.append(_responses_output(call, draw(texts)))
    outputs = draw(st.permutations(outputs))
    between = thoughts() if len(calls) > 1 else []
    return [*thoughts(), calls[0], *between, *calls[1:], *outputs]


def _responses_output(call: Entry, text: str) -> Entry:
    output: Any = text
    if call["type"] == "computer_call":
        output = {"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0K"}
    elif call["type"] == "shell_call":
        output = [{"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    elif call["type"] == "custom_tool_call":
        output = [{"type": "input_text", "text": text}]
    answer = "id" if call["type"] == "local_shell_call" else "call_id"
    return {"type": f"{call['type']}_output", answer: call["call_id"], "output": output}


def langchain_messages(max_turns: int = 8) -> st.SearchStrategy[list[Any]]:
    """Generate LangChain messages that a provider takes; they may end in an open tool loop."""
    return _langchain(max_turns)


@st.composite
def _langchain(draw: Draw, max_turns: int) -> list[Any]:
    from langchain_core.messages import RemoveMessage

    from rehydrate.formats import openai_to_langchain

    entries = openai_to_langchain(draw(_openai_chat(max_turns)))
    for place, message in enumerate(entries):
        if message.type == "ai" and message.tool_calls and draw(st.booleans()):
            entries[place] = message.model_copy(
                update={"content": draw(_langchain_blocks(message))}
            )
        elif message.type == "tool" and draw(st.booleans()):
            entries[place] = message.model_copy(update={"artifact": {"rows": [1]}})
    if draw(st.booleans()):
        entries.insert(draw(st.integers(0, len(entries))), RemoveMessage(id="gone"))
    return entries


@st.composite
def _langchain_blocks(draw: Draw, message: Any) -> list[Any]:
    """Generate a content whose blocks repeat the message's fields, and add more."""
    thought = draw(st.sampled_from(["thinking", "reasoning"]))
    blocks: list[Any] = [{"type": thought, thought: draw(texts)}, _text(draw(texts))]
    if draw(st.booleans()):
        blocks.append("a bare string")
    for call in message.tool_calls:
        use = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
        same = {**call, "type": "tool_call"}
        blocks += draw(st.sampled_from([[], [use], [same]]))
    return blocks


def plain_conversations(max_turns: int = 12) -> st.SearchStrategy[list[Entry]]:
    """Generate role/content messages, sometimes with a system one first."""
    roles = st.sampled_from(["user", "user", "assistant", "tool", "tool_result"])
    message = st.builds(lambda role, text: {"role": role, "content": text}, roles, texts)
    system = st.builds(lambda text: [{"role": "system", "content": text}], texts)
    rest = st.lists(message, max_size=max_turns)
    return st.builds(lambda head, tail: head + tail, st.one_of(st.just([]), system), rest)


def claude_code_transcripts(max_turns: int = 6) -> st.SearchStrategy[list[Entry]]:
    """Generate transcript lines as Claude Code writes them, with ignored lines of all kinds."""
    return _claude_code(max_turns)


@st.composite
def _claude_code(draw: Draw, max_turns: int) -> list[Entry]:
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
            entries.append(said("user", draw(st.one_of(texts, texts.map(lambda t: [_text(t)])))))
        elif kind == "meta":
            entries.append(said("user", draw(texts), isMeta=True))
        elif kind == "summary":
            entries.append(line("system", subtype="compact_boundary", content="compacted"))
            entries.append(said("user", draw(texts), isCompactSummary=True))
        else:
            message_id = f"msg_{turn}"
            leads = st.lists(
                st.one_of(st.just(_text("\n\n")), texts.map(_text), _thoughts()), max_size=2
            )
            blocks = [*draw(leads), _text(draw(texts))]
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
        "sidechain": lambda: said("assistant", [_text("aside")], "msg_s") | {"isSidechain": True},
        "error": lambda: said("assistant", [_text("API Error")]) | {"isApiErrorMessage": True},
        "repeated": lambda: dict(entries[0]),
    }
    for kind in draw(st.lists(st.sampled_from(sorted(noise)), max_size=6)):
        entries.insert(draw(st.integers(1, len(entries))), noise[kind]())
    return entries


def _result(call_id: str) -> Entry:
    return {"type": "tool_result", "tool_use_id": call_id, "content": f"result of {call_id}"}


def codex_rollouts(max_turns: int = 6) -> st.SearchStrategy[list[Entry]]:
    """Generate the lines of a rollout, with ignored ones, and turns that were taken back."""
    return _codex(max_turns)


@st.composite
def _codex(draw: Draw, max_turns: int) -> list[Entry]:
    def line(kind: str, **payload: Any) -> Entry:
        return {"timestamp": "2026-03-12T15:10:41.041Z", "type": kind, "payload": payload}

    entries = [line("session_meta", id="s", cwd="/w")]
    for item in draw(openai_responses_items(max_turns)):
        kind = "message" if "role" in item and "type" not in item else item["type"]
        is_turn = item.get("role") == "user"
        if is_turn and draw(st.integers(0, 5)) == 0:
            entries.append(line("response_item", type="message", role="user", content="Not this."))
            entries.append(line("event_msg", type="thread_rolled_back", num_turns=1))
        entries.append(line("response_item", **{**item, "type": kind}))
        if draw(st.integers(0, 3)) == 0:
            entries.append(line("event_msg", type="token_count"))
    return entries


def bedrock_conversations(max_turns: int = 8) -> st.SearchStrategy[list[Entry]]:
    """Generate Converse messages that the API takes; they may end in an open tool loop."""
    return _bedrock(max_turns)


@st.composite
def _bedrock(draw: Draw, max_turns: int) -> list[Entry]:
    numbers = count()
    entries: list[Entry] = []
    if draw(st.booleans()):
        entries.append({"role": "system", "content": [{"text": draw(texts)}]})
    entries.append({"role": "user", "content": [{"text": draw(texts)}]})
    for turn in range(draw(st.integers(0, max_turns))):
        kind = draw(st.sampled_from(["said", "thought", "cited", "server", "tool", "tool"]))
        thought = draw(_bedrock_thoughts())
        said, asked = [{"text": draw(texts)}], draw(_bedrock_questions(turn))
        if kind == "thought":
            said = [thought, *said]
        elif kind == "cited":
            said = [{"citationsContent": {"content": said, "citations": []}}]
        elif kind == "server":
            call = {"toolUseId": f"srv_{turn}", "name": "search", "input": {}}
            found = {"toolUseId": f"srv_{turn}", "type": "found", "content": said}
            call["type"] = "server_tool_use"
            said = [{"toolUse": call}, {"toolResult": found}, *said]
        elif kind == "tool":
            ids = [f"tooluse_{next(numbers)}" for _ in range(draw(st.integers(1, 3)))]
            uses = [
                {"toolUse": {"toolUseId": call, "name": draw(names), "input": draw(inputs)}}
                for call in ids
            ]
            said = [*([thought] if draw(st.booleans()) else said), *uses]
            results = [draw(_bedrock_results(call)) for call in draw(st.permutations(ids))]
            asked = [*results, *(asked if draw(st.integers(0, 3)) == 0 else [])]
        entries.append({"role": "assistant", "content": said})
        entries.append({"role": "user", "content": asked})
    if draw(st.booleans()):
        use = {"toolUse": {"toolUseId": "open", "name": draw(names), "input": draw(inputs)}}
        entries.append({"role": "assistant", "content": [use]})
    marked = draw(st.lists(st.integers(0, len(entries) - 1), unique=True, max_size=4))
    for place in marked:
        entries[place]["content"].append({"cachePoint": {"type": "default"}})
    return entries


def _bedrock_thoughts() -> st.SearchStrategy[Entry]:
    return st.one_of(
        texts.map(lambda text: {"reasoningText": {"text": text, "signature": "c2ln"}}),
        st.just({"redactedContent": b"opaque"}),
    ).map(lambda thought: {"reasoningContent": thought})


_BEDROCK_IMAGE = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}


def _bedrock_questions(turn: int) -> st.SearchStrategy[list[Entry]]:
    def document(text: str, source: Entry) -> Entry:
        return {"document": {"name": f"file {turn} {len(text)}", "format": "txt", "source": source}}

    few = st.none() if turn > 4 else texts.map(lambda text: document(text, {"text": text}))
    blocks = st.one_of(
        texts.map(lambda text: {"guardContent": {"text": {"text": text}}}),
        st.just(_BEDROCK_IMAGE),
    )
    return st.builds(
        lambda text, block, file: [{"text": text}, *block, *([file] if file else [])],
        texts,
        st.lists(blocks, max_size=1),
        st.one_of(st.none(), few),
    )


def _bedrock_results(call: str) -> st.SearchStrategy[Entry]:
    blocks = st.one_of(
        texts.map(lambda text: {"text": text}),
        inputs.map(lambda value: {"json": value}),
        st.just(_BEDROCK_IMAGE),
    )
    return st.lists(blocks, max_size=3).map(
        lambda content: {"toolResult": {"toolUseId": call, "content": content}}
    )


def gemini_conversations(max_turns: int = 8) -> st.SearchStrategy[list[Entry]]:
    """Generate Gemini's contents that the API takes; they may end in an open tool loop."""
    return _gemini(max_turns)


@st.composite
def _gemini(draw: Draw, max_turns: int) -> list[Entry]:
    numbers = count()
    entries: list[Entry] = []
    if draw(st.booleans()):
        entries.append({"role": "system", "parts": [{"text": draw(texts)}]})
    entries.append({"role": "user", "parts": [{"text": draw(texts)}]})
    has_ids, is_signed = draw(st.sampled_from(["both", "call", "none"])), draw(st.booleans())
    for _turn in range(draw(st.integers(0, max_turns))):
        kind = draw(st.sampled_from(["said", "thought", "code", "tool", "tool"]))
        said = [{"text": draw(texts)}]
        if kind == "thought":
            said = [{"text": draw(texts), "thought": True}, {**said[0], "thoughtSignature": "c2ln"}]
        elif kind == "code":
            code = {"executableCode": {"language": "PYTHON", "code": draw(texts)}}
            ran = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": draw(texts)}}
            said = [code, ran, *said]
        asked = draw(_gemini_questions())
        if kind == "tool":
            tools = draw(st.lists(names, min_size=1, max_size=3))
            pairs = [({"id": f"call_{next(numbers)}"}, {"name": tool}) for tool in tools]
            calls = [
                {
                    "functionCall": {
                        **(call if has_ids != "none" else {}),
                        **tool,
                        "args": draw(inputs),
                    }
                }
                for call, tool in pairs
            ]
            if is_signed:
                calls[0]["thoughtSignature"] = "c2ln"
            entries.append(
                {"role": "model", "parts": [*(draw(st.just(said) | st.just([]))), *calls]}
            )
            results = [
                draw(_gemini_results({**(call if has_ids == "both" else {}), **tool}))
                for call, tool in pairs
            ]
            entries.append({"role": "user", "parts": results})
            if draw(st.integers(0, 3)) == 0:
                entries.append({"role": "user", "parts": asked})
            continue
        entries += [{"role": "model", "parts": said}, {"role": "user", "parts": asked}]
    if draw(st.booleans()):
        call = {"functionCall": {"name": draw(names), "args": draw(inputs)}}
        entries.append({"role": "model", "parts": [call]})
    return entries


_GEMINI_IMAGE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}


def _gemini_questions() -> st.SearchStrategy[list[Entry]]:
    file = {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://harbour/tides.pdf"}}
    media = st.lists(st.sampled_from([_GEMINI_IMAGE, file]), max_size=2)
    return st.builds(lambda text, more: [{"text": text}, *more], texts, media)


def _gemini_results(pair: Entry) -> st.SearchStrategy[Entry]:
    responses = st.one_of(
        texts.map(lambda text: {"output": text}),
        texts.map(lambda text: {"error": text}),
        st.builds(lambda text, more: {"output": text, "more": more}, texts, inputs),
        inputs,
    )
    parts = st.sampled_from([{}, {}, {"parts": [_GEMINI_IMAGE]}])
    return st.builds(
        lambda response, more: {"functionResponse": {**pair, "response": response, **more}},
        responses,
        parts,
    )


def ai_sdk_conversations(max_turns: int = 8) -> st.SearchStrategy[list[Entry]]:
    """Generate the AI SDK's `ModelMessage`s; they may end in an open tool loop."""
    return _ai_sdk(max_turns)


@st.composite
def _ai_sdk(draw: Draw, max_turns: int) -> list[Entry]:
    ids = map("call_{:03}".format, count())
    entries: list[Entry] = []
    if draw(st.booleans()):
        entries.append({"role": "system", "content": draw(texts)})
    entries.append({"role": "user", "content": draw(texts)})
    for _turn in range(draw(st.integers(0, max_turns))):
        kind = draw(st.sampled_from(["user", "said", "thought", "server", "tool", "tool", "asked"]))
        if kind == "user":
            media = draw(st.lists(st.sampled_from(_AI_SDK_MEDIA), max_size=2))
            entries.append({"role": "user", "content": [_text(draw(texts)), *media]})
        elif kind == "said":
            entries.append({"role": "assistant", "content": draw(texts)})
        elif kind == "thought":
            signed = {"providerOptions": {"anthropic": {"signature": "c2ln"}}}
            thought = {
                "type": "reasoning",
                "text": draw(texts),
                **draw(st.sampled_from([{}, signed])),
            }
            entries.append({"role": "assistant", "content": [thought, _text(draw(texts))]})
        elif kind == "server":
            call = draw(_ai_sdk_calls(next(ids)))
            result = draw(_ai_sdk_results(call))
            results = [result] if draw(st.booleans()) else []  # some providers keep theirs
            content = [{**call, "providerExecuted": True}, *results, _text(draw(texts))]
            entries.append({"role": "assistant", "content": content})
        elif kind == "asked":
            call, approval = draw(_ai_sdk_calls(next(ids))), {"approvalId": f"ask_{next(ids)}"}
            about = {"toolCallId": call["toolCallId"], **approval}
            request = {"type": "tool-approval-request", **about}
            response = {
                "type": "tool-approval-response",
                **approval,
                "approved": draw(st.booleans()),
            }
            entries.append({"role": "assistant", "content": [call, request]})
            entries.append({"role": "tool", "content": [response]})
            if draw(st.booleans()):  # else the user went on first
                entries.append({"role": "tool", "content": [draw(_ai_sdk_results(call))]})
        else:
            calls = [draw(_ai_sdk_calls(next(ids))) for _ in range(draw(st.integers(1, 3)))]
            said = [_text(draw(texts))] if draw(st.booleans()) else []
            entries.append({"role": "assistant", "content": [*said, *calls]})
            results = draw(st.permutations([draw(_ai_sdk_results(call)) for call in calls]))
            together = draw(st.booleans())
            messages = [results] if together else [[result] for result in results]
            entries += [{"role": "tool", "content": list(content)} for content in messages]
    if draw(st.booleans()):
        entries.append({"role": "assistant", "content": [draw(_ai_sdk_calls(next(ids)))]})
    return entries


_AI_SDK_MEDIA: list[Entry] = [
    {"type": "image", "image": "iVBORw0KGgo=", "mediaType": "image/png"},
    {"type": "file", "data": "https://harbour.example/tides.pdf", "mediaType": "application/pdf"},
    {"type": "file", "data": "data:image/png;base64,iVBORw0KGgo=", "mediaType": "image/png"},
    {"type": "file", "data": {"type": "data", "data": "JVBERi0="}, "mediaType": "application/pdf"},
]


def _ai_sdk_calls(call: str) -> st.SearchStrategy[Entry]:
    return st.builds(
        lambda name, value: {
            "type": "tool-call",
            "toolCallId": call,
            "toolName": name,
            "input": value,
        },
        names,
        inputs,
    )


def _ai_sdk_results(call: Entry) -> st.SearchStrategy[Entry]:
    image = {"type": "image-data", "data": "iVBORw0KGgo=", "mediaType": "image/png"}
    outputs = st.one_of(
        texts.map(lambda text: {"type": "text", "value": text}),
        inputs.map(lambda value: {"type": "json", "value": value}),
        texts.map(lambda text: {"type": "error-text", "value": text}),
        texts.map(lambda text: {"type": "content", "value": [_text(text), image]}),
        st.just({"type": "execution-denied", "reason": "No."}),
    )
    about = {key: call[key] for key in ("toolCallId", "toolName")}
    return outputs.map(lambda output: {"type": "tool-result", **about, "output": output})


def ai_sdk_ui_conversations(max_turns: int = 8) -> st.SearchStrategy[list[Entry]]:
    """Generate the AI SDK's `UIMessage`s; a tool part of the last may have no output."""
    return _ai_sdk_ui(max_turns)


@st.composite
def _ai_sdk_ui(draw: Draw, max_turns: int) -> list[Entry]:
    numbers = count()

    def message(role: str, *parts: Entry) -> Entry:
        return {"id": f"msg_{next(numbers)}", "role": role, "parts": list(parts)}

    entries = [message("system", _text(draw(texts)))] if draw(st.booleans()) else []
    entries.append(message("user", _text(draw(texts))))
    for _turn in range(draw(st.integers(0, max_turns))):
        kind = draw(st.sampled_from(["user", "said", "tool", "tool", "thought"]))
        if kind == "user":
            file = {
                "type": "file",
                "mediaType": "image/png",
                "url": "data:image/png;base64,iVBORw0KGgo=",
            }
            entries.append(
                message("user", _text(draw(texts)), *draw(st.sampled_from([[], [file]])))
            )
        elif kind == "said":
            source = {"type": "source-url", "sourceId": "s", "url": "https://harbour.example"}
            data = {"type": "data-weather", "id": "w", "data": {"sky": draw(texts)}}
            entries.append(message("assistant", _text(draw(texts)), source, data))
        elif kind == "thought":
            thought = {"type": "reasoning", "text": draw(texts), "state": "done"}
            entries.append(message("assistant", thought, _text(draw(texts))))
        else:
            parts = []
            for _step in range(draw(st.integers(1, 2))):
                parts.append({"type": "step-start"})
                calls = range(draw(st.integers(1, 2)))
                parts += [draw(_ai_sdk_tools(f"call_{next(numbers)}")) for _call in calls]
            entries.append(message("assistant", *parts, _text(draw(texts))))
    if draw(st.booleans()):
        tool = draw(_ai_sdk_tools(f"call_{next(numbers)}"))
        about = {key: tool[key] for key in tool if key in ("type", "toolName", "toolCallId")}
        entries.append(message("assistant", {**about, "state": "input-available", "input": {}}))
    return entries


def _ai_sdk_tools(call: str) -> st.SearchStrategy[Entry]:
    outcomes = st.one_of(
        texts.map(lambda text: {"state": "output-available", "output": text}),
        inputs.map(lambda value: {"state": "output-available", "output": value}),
        texts.map(lambda text: {"state": "output-error", "errorText": text}),
        st.just({"state": "output-denied", "approval": {"id": "a", "approved": False}}),
    )
    kinds = st.one_of(
        names.map(lambda name: {"type": f"tool-{name}"}),
        names.map(lambda name: {"type": "dynamic-tool", "toolName": name}),
    )
    return st.builds(
        lambda kind, value, outcome: {**kind, "toolCallId": call, "input": value, **outcome},
        kinds,
        inputs,
        outcomes,
    )


BY_FORMAT: dict[str, Callable[[], st.SearchStrategy[list[Entry]]]] = {
    "anthropic": anthropic_conversations,
    "bedrock": bedrock_conversations,
    "gemini": gemini_conversations,
    "ai_sdk": ai_sdk_conversations,
    "ai_sdk_ui": ai_sdk_ui_conversations,
    "openai_chat": openai_chat_conversations,
    "openai_responses": openai_responses_items,
    "langchain": langchain_messages,
    "claude_code": claude_code_transcripts,
    "codex": codex_rollouts,
    "plain": plain_conversations,
}


def conversations() -> st.SearchStrategy[tuple[str, list[Entry]]]:
    """Generate a format's name and a valid conversation of it."""
    return st.sampled_from(sorted(BY_FORMAT)).flatmap(
        lambda name: st.tuples(st.just(name), BY_FORMAT[name]())
    )


@st.composite
def damaged(draw: Draw, entries: list[Entry]) -> list[Entry]:
    """Generate a copy with one to three small damages; each may or may not break a rule."""
    broken = copy.deepcopy(entries)
    for _ in range(draw(st.integers(1, 3))):
        if not broken:
            break
        place = draw(st.integers(0, len(broken) - 1))
        kinds = ["drop", "double", "move", "empty", "null", "drop_block", "null_block", "lose_id"]
        kind = draw(st.sampled_from(kinds))
        if kind == "drop":
            del broken[place]
        elif kind == "double":
            entry = copy.deepcopy(broken[place])
            if isinstance(entry, dict):
                entry.pop("uuid", None)
            broken.insert(draw(st.integers(0, len(broken))), entry)
        elif kind == "move":
            broken.insert(draw(st.integers(0, len(broken) - 1)), broken.pop(place))
        elif kind == "lose_id":
            if isinstance(broken[place], dict):
                for key in ("call_id", "tool_call_id", "approval_request_id", "summary"):
                    broken[place].pop(key, None)
        else:
            broken[place] = draw(_with_damaged_content(broken[place], kind))
    return broken


@st.composite
def _with_damaged_content(draw: Draw, entry: Any, kind: str) -> Any:
    message = entry.get("message", entry) if isinstance(entry, dict) else dict(entry)
    key = "parts" if "parts" in message else "content"
    if key not in message:
        return entry
    content = message[key]
    if kind == "drop_block" and isinstance(content, list) and content:
        place = draw(st.integers(0, len(content) - 1))
        content = [*content[:place], *content[place + 1 :]]
    elif kind == "null_block" and isinstance(content, list) and content:
        place = draw(st.integers(0, len(content) - 1))
        if isinstance(content[place], dict) and "content" in content[place]:
            content = [*content]
            content[place] = {**content[place], "content": None}
    elif kind == "empty":
        content = ""
    elif kind == "null":
        content = None
    if not isinstance(entry, dict):
        return entry.model_copy(update={"content": content})
    message[key] = content
    return entry


def missing_opener(conversation: Conversation, kept: Collection[int]) -> int | None:
    """Return the user unit to add, if these units would not start with the user without it.

    None: nothing is missing, or the list holds no user unit before the first kept one.
    """
    if not conversation.user_first:
        return None
    units = conversation.units
    first = min((place for place in kept if not units[place].is_system), default=None)
    if first is None or opens_with_user(units[first]):
        return None
    openers = (place for place in range(first - 1, -1, -1) if opens_with_user(units[place]))
    return next(openers, None)


def opens_with_user(unit: Unit) -> bool:
    """Return whether a conversation may begin here for a provider that wants a user message first.

    Not with a message of only white space: Claude Code leaves it out when it sends.
    """
    first = unit.messages[0]
    if first.role != "user" or first.answers:
        return False
    return first.images > 0 or any(not piece.text.isspace() for piece in first.pieces)


@st.composite
def kept_units(draw: Draw, conversation: Conversation) -> list[int]:
    """Generate units that a compaction may keep: any, plus one that makes the user first."""
    kept = {place for place in range(len(conversation.units)) if draw(st.booleans())}
    opener = missing_opener(conversation, kept)
    return sorted(kept if opener is None else kept | {opener})


def survivors(conversation: Conversation, kept: list[int]) -> Iterator[int]:
    """Yield the indices of the entries that remain when these units are kept."""
    yield from sorted(member for place in kept for member in conversation.units[place].members)
