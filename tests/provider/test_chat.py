"""Replies of the chat API, as the official SDK reads them: whole, streamed, sync and async."""

import asyncio

import openai
import pytest

from tests.provider import Call, ScriptedReply, StrictProvider
from tests.provider.sdk_clients import openai_client, openai_served

REQUEST = {
    "model": "gpt-5.2",
    "messages": [{"role": "user", "content": "What is in a.txt and b.txt?"}],
    "tools": [{"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}],
}
REPLY = ScriptedReply(
    "I will read both of them, one after the other. שלום 🙂",
    thinking="Two files.",
    calls=(Call("get", {"path": "a.txt"}, id="call_a"), Call("get", '{"path": ', id="call_b")),
)
CALLS = [
    ("call_a", "get", '{"path": "a.txt"}'),
    ("call_b", "get", '{"path": '),
]


def replies(provider, request):
    """One reply, read in each of the four ways."""
    streamed = {**request, "stream_options": {"include_usage": True}}
    with openai_client(provider) as client:
        yield client.chat.completions.create(**request)
        with client.chat.completions.stream(**streamed) as stream:
            yield stream.get_final_completion()

    async def both():
        options = {"api_key": "key", "base_url": provider.openai_url, "max_retries": 0}
        async with openai.AsyncOpenAI(**options) as client:
            whole = await client.chat.completions.create(**request)
            async with client.chat.completions.stream(**streamed) as stream:
                return whole, await stream.get_final_completion()

    yield from asyncio.run(both())


def test_a_reply_is_the_same_in_each_way_of_reading_it():
    with StrictProvider(lambda request, wire: REPLY) as provider:
        for completion in replies(provider, REQUEST):
            (choice,) = completion.choices
            calls = choice.message.tool_calls
            assert choice.message.content == REPLY.text
            assert [(c.id, c.function.name, c.function.arguments) for c in calls] == CALLS
            assert choice.finish_reason == "tool_calls"
            usage = completion.usage
            assert usage.completion_tokens_details.reasoning_tokens == 3
            assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert {exchange.wire for exchange in provider.requests} == {"openai_chat"}
    assert provider.refusals == []


def test_what_is_given_is_taken_back_with_the_results():
    with openai_served(lambda request, wire: REPLY) as (_, client):
        message = client.chat.completions.create(**REQUEST).choices[0].message
        results = [
            {"role": "tool", "tool_call_id": call, "content": "text"}
            for call in ("call_a", "call_b")
        ]
        assistant_message = message.model_dump(include={"role", "content", "tool_calls"})
        again = [*REQUEST["messages"], assistant_message, *results]
        assert client.chat.completions.create(**{**REQUEST, "messages": again}).choices


def test_a_reply_without_text_has_null_and_one_without_anything_an_empty_text():
    for said, content in ((Call("get"), None), (ScriptedReply(), "")):
        with openai_served(lambda request, wire, said=said: said) as (_, client):
            (choice,) = client.chat.completions.create(**REQUEST).choices
            assert choice.message.content == content


def test_a_reply_that_is_cut_says_so():
    respond = lambda request, wire: ScriptedReply("Half a", stop="max_tokens")  # noqa: E731
    with openai_served(respond) as (_, client):
        (choice,) = client.chat.completions.create(**REQUEST).choices
        assert (choice.message.content, choice.finish_reason) == ("Half a", "length")
        chunks = list(client.chat.completions.create(**REQUEST, stream=True))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Half a"
        assert chunks[-1].choices[0].finish_reason == "length"
        assert all(chunk.usage is None for chunk in chunks)


def test_a_refusal_is_no_content():
    respond = lambda request, wire: ScriptedReply("I will not.", stop="refusal")  # noqa: E731
    with StrictProvider(respond) as provider:
        for completion in replies(provider, REQUEST):
            message = completion.choices[0].message
            assert (message.content, message.refusal) == (None, "I will not.")


@pytest.mark.parametrize("writes", [False, True])
def test_a_prompt_is_read_from_the_cache_in_steps_of_128(writes):
    words = {"counter": lambda text: len(text.split()), "openai_bills_writes": writes}
    now = [0.0]
    with openai_served(lambda r, w: "Yes", clock=lambda: now[0], **words) as (provider, client):

        def bill(*texts):
            roles = ["user", "assistant"] * len(texts)
            request = [
                {"role": role, "content": " ".join([word] * count)}
                for role, (word, count) in zip(roles, texts, strict=False)
            ]
            usage = client.chat.completions.create(model="gpt-5.2", messages=request).usage
            details = usage.prompt_tokens_details
            assert usage.prompt_tokens == sum(count for _, count in texts)
            assert provider.requests[-1].billed.read == details.cached_tokens
            return details.cached_tokens, details.cache_write_tokens

        assert bill(("a", 1023)) == (0, 0)
        assert bill(("a", 1023)) == (0, 0)
        assert bill(("a", 1023), ("b", 129)) == (0, 1152 * writes)
        assert bill(("a", 1023), ("b", 129), ("c", 300)) == (1152, 256 * writes)
        assert bill(("a", 1023), ("b", 129), ("d", 10)) == (1152, 0)
        assert bill(("b", 1023), ("b", 129), ("d", 10)) == (0, 1152 * writes)
        now[0] = 299.0
        assert bill(("a", 1023), ("b", 129))[0] == 1152
        now[0] = 600.0
        assert bill(("a", 1023), ("b", 129))[0] == 0
