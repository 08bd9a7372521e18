"""Conversations of the AI SDK: what a model is sent, and what a page shows."""

from __future__ import annotations

from itertools import count

from hypothesis import strategies as st

from tests.strategies.parts import Draw, Entry, inputs, names, text_block, texts


@st.composite
def ai_sdk_conversations(draw: Draw, max_turns: int = 8) -> list[Entry]:
    """Generate the AI SDK's `ModelMessage`s; they may end in an open tool loop."""
    ids = map("call_{:03}".format, count())
    entries: list[Entry] = []
    if draw(st.booleans()):
        entries.append({"role": "system", "content": draw(texts)})
    entries.append({"role": "user", "content": draw(texts)})
    for _turn in range(draw(st.integers(0, max_turns))):
        kind = draw(st.sampled_from(["user", "said", "thought", "server", "tool", "tool", "asked"]))
        if kind == "user":
            media = draw(st.lists(st.sampled_from(_AI_SDK_MEDIA), max_size=2))
            entries.append({"role": "user", "content": [text_block(draw(texts)), *media]})
        elif kind == "said":
            entries.append({"role": "assistant", "content": draw(texts)})
        elif kind == "thought":
            signed = {"providerOptions": {"anthropic": {"signature": "c2ln"}}}
            thought = {
                "type": "reasoning",
                "text": draw(texts),
                **draw(st.sampled_from([{}, signed])),
            }
            entries.append({"role": "assistant", "content": [thought, text_block(draw(texts))]})
        elif kind == "server":
            call = draw(_ai_sdk_calls(next(ids)))
            result = draw(_ai_sdk_results(call))
            results = [result] if draw(st.booleans()) else []  # some providers keep theirs
            said: list[Entry] = [{**call, "providerExecuted": True}]
            if draw(st.booleans()):  # the result comes in a later message
                entries.append({"role": "assistant", "content": said})
                said = []
            content = [*said, *results, text_block(draw(texts))]
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
            said = [text_block(draw(texts))] if draw(st.booleans()) else []
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
        texts.map(lambda text: {"type": "content", "value": [text_block(text), image]}),
        st.just({"type": "execution-denied", "reason": "No."}),
    )
    about = {key: call[key] for key in ("toolCallId", "toolName")}
    return outputs.map(lambda output: {"type": "tool-result", **about, "output": output})


@st.composite
def ai_sdk_ui_conversations(draw: Draw, max_turns: int = 8) -> list[Entry]:
    """Generate the AI SDK's `UIMessage`s; a tool part of the last may have no output."""
    numbers = count()

    def message(role: str, *parts: Entry) -> Entry:
        return {"id": f"msg_{next(numbers)}", "role": role, "parts": list(parts)}

    entries = [message("system", text_block(draw(texts)))] if draw(st.booleans()) else []
    entries.append(message("user", text_block(draw(texts))))
    for _turn in range(draw(st.integers(0, max_turns))):
        kind = draw(st.sampled_from(["user", "said", "tool", "tool", "thought"]))
        if kind == "user":
            file = {
                "type": "file",
                "mediaType": "image/png",
                "url": "data:image/png;base64,iVBORw0KGgo=",
            }
            entries.append(
                message("user", text_block(draw(texts)), *draw(st.sampled_from([[], [file]])))
            )
        elif kind == "said":
            source = {"type": "source-url", "sourceId": "s", "url": "https://harbour.example"}
            data = {"type": "data-weather", "id": "w", "data": {"sky": draw(texts)}}
            entries.append(message("assistant", text_block(draw(texts)), source, data))
        elif kind == "thought":
            thought = {"type": "reasoning", "text": draw(texts), "state": "done"}
            entries.append(message("assistant", thought, text_block(draw(texts))))
        else:
            parts = []
            for _step in range(draw(st.integers(1, 2))):
                parts.append({"type": "step-start"})
                calls = range(draw(st.integers(1, 2)))
                parts += [draw(_ai_sdk_tools(f"call_{next(numbers)}")) for _call in calls]
            entries.append(message("assistant", *parts, text_block(draw(texts))))
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
