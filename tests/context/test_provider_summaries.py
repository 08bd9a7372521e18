"""Summaries that the provider writes: sent back as they are, with the thinking after them."""

from functools import partial

import anyio
import pytest

from rehydrate import formats
from rehydrate.agent import AnthropicModel, OpenAIResponsesModel
from rehydrate.context import BackgroundCompaction, Context, ProviderWriter
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt import Budget, PromptIR
from tests.provider import ScriptedReply, StrictProvider

RULE = "Never push to main without asking me first."
SUMMARY = "The user lists the berths of the harbour; berth after berth was looked at."
BUDGET = Budget(soft_tokens=6_000, hard_tokens=100_000)
CLAUDE = "claude-opus-5-5"


def respond(request, wire, words=200):
    if request.get("compaction") or request.get("object") == "response.compaction":
        return SUMMARY
    return ScriptedReply("A rope. " + "rope " * words, thinking=f"Berth {len(str(request))}.")


def claude(provider, **options):
    return AnthropicModel(
        CLAUDE, api_key="key", base_url=provider.url, thinking={"type": "adaptive"}, **options
    )


def gpt(provider):
    return OpenAIResponsesModel("gpt-5.4", api_key="key", base_url=provider.openai_url)


MODELS = {"anthropic": claude, "openai_responses": gpt}


def begun(model, writer=None, **options):
    events = []
    background = BackgroundCompaction(
        writer=ProviderWriter(writer or model), keep_last=4, on_event=events.append, **options
    )
    context = Context(
        provider=model.provider,
        model=model.name,
        budget=BUDGET,
        background=background,
        system="You are the harbour's assistant.",
    )
    return context, events


def kinds(events):
    return [event.kind for event in events]


def talk(context, model, events, turns, start=0):
    """Talk, waiting for a writer that is at work; return the prompts."""

    async def go():
        prompts = []
        for turn in range(start, start + turns):
            rule = RULE if turn == 0 else ""
            prompt = context.prompt(f"What is at berth {turn}? {rule}")
            prompts.append(prompt)
            reply = await model.reply(prompt)
            context.add(*reply.entries)
            while kinds(events).count("started") > kinds(events).count("ready"):
                await anyio.sleep(0.002)
        return prompts

    return anyio.run(go)


def thoughts(prompt):
    return [
        block
        for message in prompt.messages
        for block in (message["content"] if isinstance(message["content"], list) else ())
        if block["type"] == "thinking"
    ]


@pytest.mark.parametrize("name", MODELS)
def test_the_providers_summary_is_first_as_it_is_and_nothing_is_refused(name):
    with StrictProvider(partial(respond, words=500), binds_thinking=None) as provider:
        model = MODELS[name](provider)
        context, events = begun(model)
        prompts = talk(context, model, events, 24)
        assert provider.refusals == []
    assert kinds(events).count("swapped") > 1
    assert not any(event.detail for event in events)
    last = prompts[-1]
    native = next(each for each in last.ir.sections if each.native_to)
    messages = [each for each in last.messages if each.get("role") != "system"]
    assert tuple(messages[: len(native.content)]) == native.content
    assert not formats.validate(last.messages, name)
    # The rule is forty turns ago, and in no summary of the provider.
    assert RULE in str(last.request) and context.history[0]["content"].startswith("What")


def test_thinking_after_the_summary_stays_and_is_accepted():
    with StrictProvider(respond, binds_thinking=True) as provider:
        model = claude(provider)
        context, events = begun(model)
        prompts = talk(context, model, events, 24)
        assert provider.refusals == []
    swaps = [n for n, each in enumerate(prompts) if each.betas][:1]
    after = prompts[swaps[0]]
    kept = [each for each in after.messages if each["role"] == "assistant"][1:]
    # The last one was made when the summary was asked for, and may be younger than it.
    assert len(thoughts(after)) == len(kept) - 1 > 0


def test_thinking_after_a_summary_of_another_model_is_left_out():
    with StrictProvider(respond, binds_thinking=True) as provider:
        model, other = claude(provider), claude(provider)
        other._name = "claude-sonnet-5-5"
        context, events = begun(model, writer=other)
        prompts = talk(context, model, events, 24)
        assert provider.refusals == []
    swap = next(n for n, each in enumerate(prompts) if each.betas)
    assert thoughts(prompts[swap - 1]) and not thoughts(prompts[swap])


def test_thinking_between_a_summary_and_its_swap_is_left_out():
    with StrictProvider(respond, binds_thinking=True) as provider:
        model = claude(provider)
        # It does not pay for so few turns: it is swapped in only from 90% of the budget on.
        context, events = begun(model, expected_turns=0.01)
        prompts = talk(context, model, events, 36)
        assert provider.refusals == []
    swap = next(n for n, each in enumerate(prompts) if each.betas)
    replies = [each for each in prompts[swap].messages if each["role"] == "assistant"][1:]
    assert 0 < len(thoughts(prompts[swap])) < len(replies) - 2


@pytest.mark.parametrize("name", MODELS)
def test_a_provider_that_writes_no_summary_costs_nothing(name):
    def fails(request, wire):
        return "" if request.get("compaction") else respond(request, wire)

    with StrictProvider(fails) as provider:
        model = MODELS[name](provider)
        context, events = begun(model)
        talk(context, model, events, 30)
        if name == "openai_responses":
            provider.fail_next(500, times=50)
            context.prompt("And now?")
            context.add({"role": "assistant", "content": "x"})
        swapped = [event for event in events if event.kind == "swapped"]
    if name == "anthropic":
        assert "the store takes its place" in swapped[0].detail
        assert any("the writer failed" in line for line in context.ir.meta.degraded) or swapped
    assert not formats.validate(context.prompt("Go on.").messages, name)


def test_a_stored_thread_goes_on_from_the_providers_summary(tmp_path):
    options = {"provider": "anthropic", "model": CLAUDE, "budget": BUDGET, "system": "Be brief."}
    with StrictProvider(respond, binds_thinking=True) as provider:
        model, events = claude(provider), []
        background = BackgroundCompaction(
            writer=ProviderWriter(model), keep_last=4, on_event=events.append
        )
        turn = 0
        while kinds(events).count("swapped") < 2:
            with Context.open(
                tmp_path / "t.db", thread="t", namespace="n", background=background, **options
            ) as context:
                prompts = talk(context, model, events, 1, turn)
            turn += 1
        assert provider.refusals == []
    assert prompts[-1].betas == ("compact-2026-09-04",)
    assert PromptIR.from_dict(prompts[-1].ir.to_dict()) == prompts[-1].ir


def test_the_model_must_compact_and_be_the_providers():
    with pytest.raises(InvalidArgumentError, match="has no compact"):
        ProviderWriter(object())
    model = OpenAIResponsesModel("gpt-5.4", api_key="key")
    with pytest.raises(InvalidArgumentError, match="openai_responses"):
        Context(background=BackgroundCompaction(writer=ProviderWriter(model)))
