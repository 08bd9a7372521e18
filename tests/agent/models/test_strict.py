"""Models against the strict provider: over HTTP, cut answers and faults included, no refusal."""

import random

import anyio
import pytest

from rehydrate import Context
from rehydrate._native import result_entries
from rehydrate.agent import AnthropicModel, OpenAIChatModel, OpenAIResponsesModel
from rehydrate.cost import Usage
from rehydrate.errors import (
    ContextOverflowError,
    ProviderUnavailableError,
    RateLimitError,
)
from rehydrate.prompt import ToolDef
from tests.provider.faults import Fault

strict = pytest.importorskip("tests.provider")

MODELS = {
    "anthropic": AnthropicModel,
    "openai_chat": OpenAIChatModel,
    "openai_responses": OpenAIResponsesModel,
}
TOOLS = [
    ToolDef(name, f"Does {name}.", {"type": "object", "properties": {}}) for name in ("a", "b")
]
TURNS, SEED = 5, " c"
EVERY_WAY = [
    pytest.param(wire, backend, is_streamed, id=f"{wire}-{backend}-{is_streamed}")
    for wire in sorted(MODELS)
    for backend in ("asyncio", "trio")
    for is_streamed in (False, True)
]


def model_for(wire, provider, name="claude-opus-4-6", **options):
    url = provider.url if wire == "anthropic" else provider.openai_url
    return MODELS[wire](name, base_url=url, api_key="k", **options)


STALLS_MIDWAY = {"late": False, "slow": True}
"""Models that the provider keeps waiting. By their names, not by a plan: on a busy machine a
hasty client gives up before its request arrives, and the next one would meet the fault."""


def stalls(request, wire):
    midway = STALLS_MIDWAY.get(request["model"])
    return None if midway is None else Fault("stall", stall_seconds=1.0, midway=midway)


def listener(is_streamed):
    return (lambda text: None) if is_streamed else None


def moody(chance):
    """Return a responder whose thinking, text, calls and stop reason are random."""

    def respond(request, wire):
        said = {
            "text": chance.choice(["", "I look.", "Done: é😀\u2028."]),
            "thinking": chance.choice([None, "", "Hm, \u2028 so."]),
            "stop": chance.choice([None, None, None, "max_tokens", "refusal"]),
        }
        calls = [
            strict.Call(chance.choice("ab"), {"n": chance.random(), "név": "Réka"})
            for _ in range(chance.choice([0, 0, 1, 3]))
        ]
        return strict.ScriptedReply(**said, calls=tuple(calls))

    return respond


@pytest.mark.parametrize(("wire", "backend", "is_streamed"), EVERY_WAY)
def test_no_request_of_a_long_conversation_is_refused(wire, backend, is_streamed):
    options = {"thinking": {"type": "adaptive"}} if wire == "anthropic" else {}

    async def talk(provider):
        context = Context(provider=wire, system="Rules. " * 1_500, tools=TOOLS)
        usages = []
        async with model_for(wire, provider, **options) as model:
            for number in range(TURNS):
                sent = await context.aprompt(f"Question {number}?")
                for _ in range(6):
                    reply = await model.reply(sent, on_text=listener(is_streamed))
                    usages.append(reply.usage)
                    results = [call.result(f"{call.arguments()}") for call in reply.calls]
                    context.add(*reply.entries, *result_entries(results))
                    assert (reply.stop == "calls") == bool(reply.calls)
                    if not reply.calls:
                        break
                    sent = await context.aprompt()
        return usages

    chance = random.Random(f"{wire} {backend} {is_streamed}{SEED}")
    with strict.StrictProvider(moody(chance)) as provider:
        usages = anyio.run(talk, provider, backend=backend)
        assert provider.refusals == []
        assert len(provider.requests) == len(usages) > TURNS
        total = Usage.total(usages)
        assert total.read == provider.usage.read > total.uncached
        assert total.output == provider.usage.output


@pytest.mark.parametrize(("wire", "backend", "is_streamed"), EVERY_WAY)
def test_every_fault_is_the_error_that_it_is(wire, backend, is_streamed):
    sent = Context(provider=wire).prompt("Which berth is free?")
    errors = []

    async def talk(provider):
        async with (
            model_for(wire, provider) as model,
            model_for(wire, provider, "late", timeout=0.1) as late,
            model_for(wire, provider, "slow", timeout=0.1) as slow,
        ):

            async def failed(expected, model=model):
                with pytest.raises(expected) as raised:
                    await model.reply(sent, on_text=listener(is_streamed))
                # It holds the generators of the SDK's stream. Freed during the run, trio warns of
                # them if the answer broke off; at its end trio finishes them.
                errors.append(raised.value)
                return raised.value

            for status in (500, 529 if wire == "anthropic" else 503):
                provider.fail_next(status)
                assert (await failed(ProviderUnavailableError)).status == status
            provider.rate_limit_next(7.0)
            assert (await failed(RateLimitError)).retry_after_seconds == 7.0
            provider.overflow_next()
            await failed(ContextOverflowError)
            provider.drop_next()
            await failed(ProviderUnavailableError)
            for hasty in (late, slow):
                await failed(ProviderUnavailableError, hasty)
            if is_streamed:
                provider.fail_next(500, midway=True)
                await failed(ProviderUnavailableError)
                if wire == "openai_responses":
                    provider.overflow_next(midway=True)
                    await failed(ContextOverflowError)
            asked = unhurried(provider)
            reply = await model.reply(sent, on_text=listener(is_streamed))
            assert reply.text == answer
            assert unhurried(provider) == asked + 1

    def unhurried(provider):
        kinds = [exchange.fault and exchange.fault.kind for exchange in list(provider.requests)]
        return len(kinds) - kinds.count("stall")

    answer = "Berth 4 is free until noon."
    with strict.StrictProvider(lambda request, wire: answer, faults=stalls) as provider:
        anyio.run(talk, provider, backend=backend)
        assert provider.refusals == []


@pytest.mark.parametrize(("wire", "backend", "is_streamed"), EVERY_WAY)
def test_cancelling_in_the_midst_of_an_answer_leaves_a_model_that_goes_on(
    wire, backend, is_streamed
):
    async def asking(provider):
        sent = Context(provider=wire).prompt("Which berth is free?")
        async with model_for(wire, provider) as model:
            await model.aload()  # so that the time goes by in the answer
            for midway in (False, True):
                provider.stall_next(5.0, midway=midway)
                with anyio.move_on_after(0.1) as scope:
                    await model.reply(sent, on_text=listener(is_streamed))
                assert scope.cancelled_caught
            return (await model.reply(sent, on_text=listener(is_streamed))).text

    with strict.StrictProvider(lambda request, wire: "Berth 4 is free.") as provider:
        assert anyio.run(asking, provider, backend=backend) == "Berth 4 is free."
