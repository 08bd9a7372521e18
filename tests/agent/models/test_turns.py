"""Models in conversations: a reply goes into a context, and the next request has it unchanged."""

import anyio
import pytest

from rehydrate import Context, validate
from rehydrate._native import result_entries, unicode_inside
from rehydrate.agent import model_of
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt import ToolDef
from tests.agent.models import test_anthropic, test_openai_chat, test_openai_responses
from tests.agent.models.fake_transport import FakeTransport, ask, prompt

ANSWERS = {
    "anthropic": (
        test_anthropic.message(test_anthropic.ALL, "tool_use"),
        test_anthropic.message([test_anthropic.THINKING, test_anthropic.TEXT]),
    ),
    "openai_chat": (
        test_openai_chat.completion({**test_openai_chat.MESSAGE, "reasoning_content": "Hm."}),
        test_openai_chat.completion({"role": "assistant", "content": "Booked."}),
    ),
    "openai_responses": (
        test_openai_responses.response(test_openai_responses.ALL),
        test_openai_responses.response(
            [
                {**test_openai_responses.REASONING, "id": "rs_2"},
                test_openai_responses.message_item("Booked.", id="msg_2"),
            ]
        ),
    ),
}
NAMES = {"anthropic": "anthropic:x", "openai_chat": "openai_chat:x", "openai_responses": "openai:x"}


def streamed(provider, answer):
    if provider == "anthropic":
        return test_anthropic.stream(answer["content"], answer["stop_reason"])
    if provider == "openai_responses":
        return test_openai_responses.stream(answer)
    message = answer["choices"][0]["message"]
    calls = [{"index": n, **call} for n, call in enumerate(message.get("tool_calls", []))]
    return test_openai_chat.chunks(message | ({"tool_calls": calls} if calls else {}))


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("provider", sorted(ANSWERS))
def test_each_request_begins_with_the_one_before_and_what_was_said_since(
    provider, backend, is_streamed
):
    answers = ANSWERS[provider]
    transport = FakeTransport(
        *[streamed(provider, each) if is_streamed else each for each in answers]
    )
    sdk = "anthropic" if provider == "anthropic" else "openai"
    model = model_of(NAMES[provider], client=transport.client(sdk))
    assert model.provider == provider
    tool = ToolDef("book", "Books a berth.", {"type": "object", "properties": {}})
    context = Context(provider=provider, system="Be brief.", tools=[tool])

    async def turn():
        sent = await context.aprompt("Book berth 4.")
        while True:
            reply = await model.reply(sent, on_text=print if is_streamed else None)
            results = [call.result("Booked.") for call in reply.calls]
            context.add(*reply.entries, *result_entries(results))
            if not reply.calls:
                return
            sent = await context.aprompt()

    anyio.run(turn, backend=backend)
    assert validate(context.history, format=provider) == []
    key = "input" if provider == "openai_responses" else "messages"
    first, second = (without_marks(request[key]) for request in transport.requests)
    assert second[: len(first)] == first
    replies = without_marks(context.history[1 : 1 + len(second) - len(first)])
    assert second[len(first) :] == replies


def without_marks(value):
    """Cache marks move from prompt to prompt; a message of one text may be a string."""
    if isinstance(value, dict):
        content = value.get("content")
        if value.get("role") == "user" and isinstance(content, str):
            value = {**value, "content": [{"type": "text", "text": content}]}
        return {key: without_marks(each) for key, each in value.items() if key != "cache_control"}
    return [without_marks(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("provider", sorted(ANSWERS))
def test_half_a_surrogate_pair_in_the_history_stops_no_conversation(provider, is_streamed):
    # A tool that lists files, for one: os.fsdecode makes such names of bytes that aren't UTF-8.
    key = "input" if provider == "openai_responses" else "messages"
    sent = prompt(provider, **{key: [{"role": "user", "content": "caf\udce9.txt \ud83d\ude00"}]})
    answer = ANSWERS[provider][1]
    transport = FakeTransport(streamed(provider, answer) if is_streamed else answer)
    sdk = "anthropic" if provider == "anthropic" else "openai"
    model = model_of(NAMES[provider], client=transport.client(sdk))
    ask(model, sent, on_text=print if is_streamed else None)
    assert transport.requests[0][key] == [{"role": "user", "content": "caf\ufffd.txt \U0001f600"}]


def test_what_utf8_can_hold_stays_as_it_is():
    value = {"a": ["é😀", 1, None, ("x", 2.5)]}
    assert unicode_inside(value) == {"a": ["é😀", 1, None, ["x", 2.5]]}


@pytest.mark.parametrize("name", ["", "gpt-5.4", "anthropic:", "mistral:x", ":x"])
def test_a_name_of_no_known_api_is_an_error_that_lists_them(name):
    with pytest.raises(InvalidArgumentError, match=r"'anthropic:\.\.\.', 'openai:\.\.\.'"):
        model_of(name)
