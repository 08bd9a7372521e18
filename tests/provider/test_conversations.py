"""Many conversations at once, from threads and from tasks: each gets its own answers."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import anthropic
import openai

from tests.provider import Billed, Call, ScriptedReply, StrictProvider
from tests.provider.sdk_clients import anthropic_client, anthropic_served

TURNS = 3
TOOLS = [{"name": "get", "input_schema": {"type": "object"}}]


def respond(request, wire):
    """Reply with the name of the conversation, and call a tool with it."""
    first = (request["messages"] if wire != "openai_responses" else request["input"])[0]
    name = first["content"]
    return ScriptedReply(f"In {name}.", calls=(Call("get", {"of": name}),))


def talk(client, name):
    """Hold a conversation of a few rounds; yield each reply's text and call input."""
    messages = [{"role": "user", "content": name}]
    for _ in range(TURNS):
        reply = client.messages.create(
            model="claude-test", max_tokens=100, messages=messages, tools=TOOLS
        )
        yield reply.content[0].text, reply.content[1].input
        result = {"type": "tool_result", "tool_use_id": reply.content[1].id, "content": "ok"}
        content = [block.model_dump(exclude_none=True) for block in reply.content]
        messages += [
            {"role": "assistant", "content": content},
            {"role": "user", "content": [result]},
        ]


def test_threads_share_a_provider():
    names = [f"talk {number}" for number in range(30)]
    threads = ThreadPoolExecutor(max_workers=20)
    with anthropic_served(respond) as (provider, client), threads:
        talks = list(threads.map(lambda name: list(talk(client, name)), names))
    for name, replies in zip(names, talks, strict=True):
        assert replies == [(f"In {name}.", {"of": name})] * TURNS
    assert len(provider.requests) == 30 * TURNS
    assert provider.refusals == []
    total = Billed()
    for exchange in provider.requests:
        total = total.plus(exchange.billed)
    assert provider.usage == total


def test_many_tasks_share_a_provider_of_all_wires():
    async def ask(claude, gpt, number):
        name = f"talk {number}"
        messages = [{"role": "user", "content": name}]
        if number % 3 == 0:
            reply = await claude.messages.create(
                model="claude-test", max_tokens=100, messages=messages
            )
            return reply.content[0].text
        if number % 3 == 1:
            reply = await gpt.chat.completions.create(model="gpt-5.2", messages=messages)
            return reply.choices[0].message.content
        return (await gpt.responses.create(model="gpt-5.2", input=messages)).output_text

    async def ask_all(provider):
        options = {"api_key": "key", "max_retries": 0}
        async with (
            anthropic.AsyncAnthropic(base_url=provider.url, **options) as claude,
            openai.AsyncOpenAI(base_url=provider.openai_url, **options) as gpt,
        ):
            return await asyncio.gather(*(ask(claude, gpt, number) for number in range(90)))

    with StrictProvider(respond) as provider:
        replies = asyncio.run(ask_all(provider))
    assert replies == [f"In talk {number}." for number in range(90)]
    assert provider.refusals == []


def test_two_providers_do_not_share_requests():
    with StrictProvider(respond) as one, StrictProvider(respond) as other:
        assert one.port != other.port
        with anthropic_client(one) as client:
            list(talk(client, "here"))
    assert (len(one.requests), len(other.requests)) == (TURNS, 0)
