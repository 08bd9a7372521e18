"""BedrockModel: through boto3, a reply goes into the history with its signatures."""

import json
from base64 import b64encode
from functools import partial
from threading import Event

import anyio
import pytest

from rehydrate import validate
from rehydrate.agent import BedrockModel, Model
from rehydrate.cost import Usage
from rehydrate.errors import InvalidArgumentError, ProviderUnavailableError
from tests.agent.models.fake_transport import ask, prompt
from tests.agent.models.served import aws_keys, served, stream, whole  # noqa: F401  a fixture
from tests.provider import converse

pytestmark = pytest.mark.usefixtures("aws_keys")

REASONING = {
    "reasoningContent": {"reasoningText": {"text": "Hm…\u2028 so", "signature": "EqQB+/=="}}
}
REDACTED = {"reasoningContent": {"redactedContent": b"\x00\xff\x10"}}
TEXT = {"text": "Berth 4 is free."}
INPUT = {"berth": 4, "név": "Réka", "weights": [0.1, 1e-7, None]}
CALL = {"toolUse": {"toolUseId": "tooluse_1", "name": "book", "input": INPUT}}
CITED = {
    "citationsContent": {
        "content": [{"text": "It is free."}],
        "citations": [{"title": "Berths", "location": {"documentChar": {"documentIndex": 0}}}],
    }
}
ALL = [REASONING, REDACTED, CITED, TEXT, CALL]
USAGE = {
    "inputTokens": 9,
    "outputTokens": 20,
    "totalTokens": 179,
    "cacheReadInputTokens": 100,
    "cacheWriteInputTokens": 50,
    "cacheDetails": [{"ttl": "5m", "inputTokens": 30}, {"ttl": "1h", "inputTokens": 20}],
}
SENT = prompt("bedrock")


def response(blocks, reason="end_turn"):
    message = {"role": "assistant", "content": [encoded(each) for each in blocks]}
    return {"output": {"message": message}, "stopReason": reason, "usage": USAGE}


def encoded(block):
    """Bytes are base64 on the wire."""
    if redacted := block.get("reasoningContent", {}).get("redactedContent"):
        return {"reasoningContent": {"redactedContent": b64encode(redacted).decode()}}
    return block


def events(blocks, reason="end_turn"):
    """The events as the service sends them: a call begins with a start, all else with a delta."""
    listed = [{"messageStart": {"role": "assistant"}}]
    for index, block in enumerate(blocks):
        if "toolUse" in block:
            start = {key: value for key, value in block["toolUse"].items() if key != "input"}
            listed.append(
                {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": start}}}
            )
        listed += [
            {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}
            for delta in deltas(encoded(block))
        ]
        listed.append({"contentBlockStop": {"contentBlockIndex": index}})
    listed.append({"messageStop": {"stopReason": reason}})
    return [*listed, {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 3}}}]


def deltas(block):
    if "text" in block:
        return [{"text": text} for text in halves(block["text"])]
    if "toolUse" in block:
        texts = halves(json.dumps(block["toolUse"]["input"]))
        return [{"toolUse": {"input": text}} for text in texts]
    if cited := block.get("citationsContent"):
        citations = [{"citation": each} for each in cited["citations"]]
        return [*({"text": each} for each in halves(cited["content"][0]["text"])), *citations]
    reasoning = block["reasoningContent"]
    if "redactedContent" in reasoning:
        return [block]
    texts = [{"text": each} for each in halves(reasoning["reasoningText"]["text"])]
    signature = {"signature": reasoning["reasoningText"]["signature"]}
    return [{"reasoningContent": each} for each in (*texts, signature)]


def halves(text):
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def ask_model(*answers, on_text=None, backend="asyncio", **options):
    with served(*answers) as serving:
        model = BedrockModel("claude:0", base_url=serving.url, **options)
        return ask(model, SENT, on_text=on_text, backend=backend), serving


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_every_block_comes_back_as_it_was_sent(is_streamed, backend):
    pieces = []
    reason = "tool_use"
    answer = (
        stream("bedrock", events(ALL, reason))
        if is_streamed
        else whole("bedrock", response(ALL, reason))
    )
    on_text = pieces.append if is_streamed else None
    reply, _ = ask_model(answer, on_text=on_text, backend=backend)
    assert reply.entries == ({"role": "assistant", "content": ALL},)
    assert (reply.stop, reply.text) == ("calls", "It is free.Berth 4 is free.")
    assert [(call.id, call.arguments()) for call in reply.calls] == [("tooluse_1", INPUT)]
    assert reply.usage == Usage(read=100, written=30, written_1h=20, uncached=9, output=20)
    assert (reply.model, reply.id) == ("claude:0", "" if is_streamed else "r1")
    assert "".join(pieces) == (reply.text if is_streamed else "")


@pytest.mark.parametrize("on_text", [None, print])
def test_the_request_is_the_prompt_with_the_options_and_nothing_else(on_text):
    answer = stream("bedrock", events([TEXT])) if on_text else whole("bedrock", response([TEXT]))
    _, serving = ask_model(answer, inferenceConfig={"maxTokens": 99}, on_text=on_text)
    assert serving.paths == [f"/model/claude%3A0/converse{'-stream' if on_text else ''}"]
    assert serving.requests == [
        {
            "messages": [{"role": "user", "content": [{"text": "Hi."}]}],
            "inferenceConfig": {"maxTokens": 99},
        }
    ]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_stream_that_opens_after_a_cancellation_is_closed(backend):
    import boto3

    client = Late()

    async def main():
        model = BedrockModel("m", client=client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(model.reply, SENT, on_text=print))
            while not client.is_asked.is_set():
                await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
        client.may_answer.set()

    with served(stream("bedrock", events([TEXT]))) as serving:
        client.client = boto3.client("bedrock-runtime", endpoint_url=serving.url)
        anyio.run(main, backend=backend)
        assert client.is_closed.wait(60)


class Late:
    """A client whose answer is there only after its caller has gone."""

    def __init__(self):
        self.is_asked, self.may_answer, self.is_closed = Event(), Event(), Event()
        self.client = None

    def converse_stream(self, **arguments):
        answer = self.client.converse_stream(**arguments)
        self.is_asked.set()
        self.may_answer.wait()
        close = answer["stream"].close
        answer["stream"].close = lambda: (close(), self.is_closed.set())
        return answer


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("blocks", "reason", "stop", "kept", "calls"),
    [
        ([TEXT], "stop_sequence", "answer", [TEXT], 0),
        ([TEXT], "max_tokens", "length", [TEXT], 0),
        ([TEXT], "model_context_window_exceeded", "length", [TEXT], 0),
        ([REASONING], "max_tokens", "length", [], 0),
        ([TEXT, CALL], "max_tokens", "length", [TEXT], 0),
        ([TEXT, CALL], "guardrail_intervened", "refusal", [TEXT], 0),
        ([], "content_filtered", "refusal", [], 0),
        ([], "end_turn", "answer", [], 0),
        ([{"text": "\n"}, CALL], "tool_use", "calls", [CALL], 1),
        ([REASONING, REDACTED], "end_turn", "answer", [], 0),
        ([REASONING, CALL], "tool_use", "calls", [REASONING, CALL], 1),
        ([TEXT], "a_reason_of_next_year", "answer", [TEXT], 0),
    ],
)
def test_what_it_stopped_for_and_what_of_it_can_be_sent_again(
    blocks, reason, stop, kept, calls, is_streamed
):
    body = response(blocks, reason)
    answer = stream("bedrock", events(blocks, reason)) if is_streamed else whole("bedrock", body)
    reply, _ = ask_model(answer, on_text=print if is_streamed else None)
    assert (reply.stop, len(reply.calls)) == (stop, calls)
    assert [each["content"] for each in reply.entries] == ([kept] if kept else [])
    history = [{"role": "user", "content": [{"text": "Hi."}]}, *reply.entries]
    assert validate(history, format="bedrock") == [] or stop == "calls"
    assert converse.refusal({"messages": history}) is None or stop == "calls"


def test_a_call_that_the_service_answers_itself_is_not_ours():
    used = {
        "toolUse": {"toolUseId": "s1", "name": "search", "input": {}, "type": "server_tool_use"}
    }
    listed = events([used, TEXT])
    reply, _ = ask_model(stream("bedrock", listed), on_text=print)
    assert (reply.calls, reply.entries[0]["content"]) == ((), [used, TEXT])


def test_a_call_that_the_model_miswrote_is_no_answer():
    with pytest.raises(ProviderUnavailableError, match="malformed_tool_use"):
        ask_model(whole("bedrock", response([], "malformed_tool_use")))


def test_an_input_that_is_no_json_is_wrapped():
    listed = events([CALL], "tool_use")
    del listed[3]
    reply, _ = ask_model(stream("bedrock", listed), on_text=print)
    assert [*reply.calls[0].arguments()] == ["INVALID_JSON"]


@pytest.mark.parametrize("body", [{}, {"output": {}}, "<html>"])
def test_an_answer_of_another_shape_is_no_answer(body):
    with pytest.raises(ProviderUnavailableError, match="cannot be read"):
        ask_model(whole("bedrock", body))


def test_mistakes_in_the_program_are_named():
    assert isinstance(BedrockModel("claude"), Model)
    with pytest.raises(InvalidArgumentError, match="'modelId' as an option"):
        BedrockModel("claude", modelId="x")
    with pytest.raises(InvalidArgumentError, match="'bedrock-runtime'"):
        BedrockModel("claude", client=object())
    with pytest.raises(InvalidArgumentError, match="own region and timeout"):
        BedrockModel("claude", client=object(), timeout=3)


@pytest.mark.parametrize("missing", ["toolUseId", "name"])
def test_a_call_without_an_id_or_a_name_is_no_answer(missing):
    """It cannot be run, and no history that holds it can be sent."""
    call = {key: value for key, value in CALL["toolUse"].items() if key != missing}
    with served(whole("bedrock", response([TEXT, {"toolUse": call}], "tool_use"))) as serving:
        model = BedrockModel("m", base_url=serving.url)
        with pytest.raises(ProviderUnavailableError, match="a call without an id or a name"):
            ask(model, SENT)
