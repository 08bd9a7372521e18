"""Conversations of OpenAI's two APIs, LangChain's messages, and the rollouts that Codex writes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from hypothesis import strategies as st

from tests.strategies.parts import Draw, Entry, names, text_block, texts


@st.composite
def openai_chat_conversations(draw: Draw, max_turns: int = 8) -> list[Entry]:
    """Generate OpenAI chat messages that the API takes; they may end in an open tool loop."""
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
            parts = [text_block(draw(texts)), part]
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


@st.composite
def openai_responses_items(draw: Draw, max_turns: int = 8) -> list[Entry]:
    """Generate Responses items that the API takes; they may end in an open tool loop."""
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


@st.composite
def langchain_messages(draw: Draw, max_turns: int = 8) -> list[Any]:
    """Generate LangChain messages that a provider takes; they may end in an open tool loop."""
    from langchain_core.messages import RemoveMessage

    from rehydrate.formats import openai_to_langchain

    entries = openai_to_langchain(draw(openai_chat_conversations(max_turns)))
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
    blocks: list[Any] = [{"type": thought, thought: draw(texts)}, text_block(draw(texts))]
    if draw(st.booleans()):
        blocks.append("a bare string")
    for call in message.tool_calls:
        use = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
        same = {**call, "type": "tool_call"}
        blocks += draw(st.sampled_from([[], [use], [same]]))
    return blocks


@st.composite
def codex_rollouts(draw: Draw, max_turns: int = 6) -> list[Entry]:
    """Generate the lines of a rollout, with ignored ones, and turns that were taken back."""

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
