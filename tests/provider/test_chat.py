"""Replies of the chat API, as the official SDK reads them: whole, streamed, sync and async."""

import asyncio

import openai
import pytest

from tests.provider import Call, Says, StrictProvider
from tests.provider.asking import openai_client, openai_served

ASKED = {
    "model": "gpt-5.2",
    "messages": [{"role": "user", "content": "What is in a.txt and b.txt?"}],
    "tools": [{"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}],
}
SAID = Says(
    "I will read both of them, one after the other. שלום 🙂",
    thinking="Two files.",
    calls=(Call("get", {"path": "a.txt"}, id="call_a"), Call("get", '{"path": ', id="call_b")),
)
CALLS = [
    ("call_a", "get", '{"path": "a.txt"}'),
    ("call_b", "get", '{"path": '),
]


def replies(provider, asked):
    """One reply, read in each of the four ways."""
    streamed = {**asked, "stream_options": {"include_usage": True}}
    with openai_client(provider) as client:
        yield client.chat.completions.create(**asked)
        with client.chat.completions.stream(**streamed) as stream:
            yield stream.get_final_completion()

    async def both():
        options = {"api_key": "key", "base_url": provider.openai_url, "max_retries": 0}
        async with openai.AsyncOpenAI(**options) as client:
            whole = await client.chat.completions.create(**asked)
            async with client.chat.completions.stream(**streamed) as stream:
                return whole, await stream.get_final_completion()

    yield from asyncio.run(both())


def test_a_reply_is_the_same_in_each_way_of_reading_it():
    with StrictProvider(lambda request, wire: SAID) as provider:
        for completion in replies(provider, ASKED):
            (choice,) = completion.choices
            calls = choice.message.tool_calls
            assert choice.message.content == SAID.text
            assert [(c.id, c.function.name, c.function.arguments) for c in calls] == CALLS
            assert choice.finish_reason == "tool_calls"
            usage = completion.usage
            assert usage.completion_tokens_details.reasoning_tokens == 3
            assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert {exchange.wire for exchange in provider.requests} == {"openai_chat"}
    assert provider.refusals == []


def test_what_is_given_is_taken_back_with_the_results():
    with openai_served(lambda request, wire: SAID) as (_, client):
        message = client.chat.completions.create(**ASKED).choices[0].message
        results = [
            {"role": "tool", "tool_call_id": call, "content": "text"}
            for call in ("call_a", "call_b")
        ]
        spoken = message.model_dump(include={"role", "content", "tool_calls"})
        again = [*ASKED["messages"], spoken, *results]
        assert client.chat.completions.create(**{**ASKED, "messages": again}).choices


def test_a_reply_without_text_has_null_and_one_without_anything_an_empty_text():
    for said, content in ((Call("get"), None), (Says(), "")):
        with openai_served(lambda request, wire, said=said: said) as (_, client):
            (choice,) = client.chat.completions.create(**ASKED).choices
            assert choice.message.content == content


def test_a_reply_that_is_cut_says_so():
    brain = lambda request, wire: Says("Half a", stop="max_tokens")  # noqa: E731
    with openai_served(brain) as (_, client):
        (choice,) = client.chat.completions.create(**ASKED).choices
        assert (choice.message.content, choice.finish_reason) == ("Half a", "length")
        chunks = list(client.chat.completions.create(**ASKED, stream=True))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Half a"
        assert chunks[-1].choices[0].finish_reason == "length"
        assert all(chunk.usage is None for chunk in chunks)


def test_a_refusal_is_no_content():
    brain = lambda request, wire: Says("I will not.", stop="refusal")  # noqa: E731
    with StrictProvider(brain) as provider:
        for completion in replies(provider, ASKED):
            message = completion.choices[0].message
            assert (message.content, message.refusal) == (None, "I will not.")


@pytest.mark.parametrize("writes", [False, True])
def test_a_prompt_is_read_from_the_cache_in_steps_of_128(writes):
    words = {"counter": lambda text: len(text.split()), "openai_bills_writes": writes}
    now = [0.0]
    with openai_served(lambda r, w: "Yes", clock=lambda: now[0], **words) as (provider, client):

        def bill(*texts):
            roles = ["user", "assistant"] * len(texts)
            asked = [
                {"role": role, "content": " ".join([word] * count)}
                for role, (word, count) in zip(roles, texts, strict=False)
            ]
            usage = client.chat.completions.create(model="gpt-5.2", messages=asked).usage
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
