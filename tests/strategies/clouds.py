"""Conversations of Bedrock's Converse and of Gemini."""

from __future__ import annotations

from itertools import count

from hypothesis import strategies as st

from tests.strategies.parts import Draw, Entry, inputs, names, texts


@st.composite
def bedrock_conversations(draw: Draw, max_turns: int = 8) -> list[Entry]:
    """Generate Converse messages that the API takes; they may end in an open tool loop."""
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


@st.composite
def gemini_conversations(draw: Draw, max_turns: int = 8) -> list[Entry]:
    """Generate Gemini's contents that the API takes; they may end in an open tool loop."""
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
