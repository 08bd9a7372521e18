"""Anthropic's own compaction at a threshold: its block is kept, billed and sent back as it came."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from rehydrate import Budget, Context, formats
from rehydrate.agent import AnthropicModel
from rehydrate.cost.prices import Usage
from rehydrate.prompt import ProviderPolicy
from tests.provider import ScriptedReply, StrictProvider

CLAUDE = "claude-opus-5-5"
POLICY = ProviderPolicy(compact_at=50_000)
WIDE = Budget(soft_tokens=180_000)
NOON = "It is noon at the harbour, and all is well. " * 500


def respond(request: Any, wire: Any) -> ScriptedReply:
    count = len(str(request))
    summary = f"The user goes from berth to berth, and asks what is there; {count} so far."
    return ScriptedReply(f"Ship {count}. " + NOON, thinking=f"Berth {count}.", summary=summary)


def failing(request: Any, wire: Any) -> ScriptedReply:
    return ScriptedReply("A tug. " + NOON, summary=None)


def talk(
    provider: StrictProvider, turns: int, budget: Budget = WIDE, **options: Any
) -> tuple[Context, list[Any], list[Usage]]:
    model = AnthropicModel(
        CLAUDE, api_key="key", base_url=provider.url, thinking={"type": "adaptive"}, **options
    )
    context = Context(provider="anthropic", model=CLAUDE, budget=budget, policy=POLICY)
    prompts, usages = [], []

    async def go() -> None:
        for turn in range(turns):
            prompts.append(context.prompt(f"What is at berth {turn}? {NOON}"))
            reply = await model.reply(prompts[-1])
            usages.append(reply.usage)
            context.add(*reply.entries)

    anyio.run(go)
    return context, prompts, usages


def blocks_in(messages: Any) -> list[Any]:
    contents = [each["content"] for each in messages if isinstance(each["content"], list)]
    found = [block for content in contents for block in content]
    return [
        {key: value for key, value in block.items() if key != "cache_control"}
        for block in found
        if block["type"] == "compaction"
    ]


@pytest.mark.parametrize("max_tokens", [4_000, 40_000], ids=["whole", "streamed"])
def test_the_block_is_kept_billed_and_sent_back_as_it_came(max_tokens: int) -> None:
    with StrictProvider(respond, binds_thinking=None) as provider:
        context, prompts, usages = talk(provider, 14, max_tokens=max_tokens)
        assert provider.refusals == provider.overflows == []
        bills = [exchange.billed for exchange in provider.requests if exchange.billed]
    own = blocks_in(context.history)
    assert len(own) > 1
    assert blocks_in(prompts[-1].messages) == own[: len(blocks_in(prompts[-1].messages))]
    assert [each.input for each in usages] == [each.prompt for each in bills]
    assert [each.output for each in usages] == [each.output for each in bills]
    assert max(each.input for each in usages) > 50_000
    assert prompts[-1].betas == ("compact-2026-01-12",)
    assert not formats.validate(prompts[-1].messages, "anthropic")


def test_our_own_compaction_keeps_the_last_block_whole() -> None:
    with StrictProvider(respond, binds_thinking=None) as provider:
        context, prompts, _ = talk(provider, 16, Budget(soft_tokens=90_000))
        assert provider.refusals == []
    assert context.usage.compactions
    added = blocks_in(context.history)
    assert len(added) > 1
    for turn, prompt in enumerate(prompts):
        sent = blocks_in(prompt.messages)
        assert sent == [each for each in added if each in sent]  # whole, and in their order
        assert sent[-1:] == blocks_in(list(context.history)[: 2 * turn])[-1:]


def test_a_block_that_failed_goes_back_and_replaces_nothing() -> None:
    with StrictProvider(failing) as provider:
        context, _, _ = talk(provider, 7)
        assert provider.refusals == []
    assert None in [block["content"] for block in blocks_in(context.history)]


def test_a_thread_that_has_blocks_names_their_beta_without_a_policy() -> None:
    summary = {"type": "compaction", "content": "So far all is well."}
    context = Context(provider="anthropic")
    context.add({"role": "user", "content": "Which berth?"})
    context.add({"role": "assistant", "content": [summary, {"type": "text", "text": "A tug."}]})
    assert context.prompt("And now?").betas == ("compact-2026-01-12",)


def test_a_bill_has_the_writing_of_a_summary_too() -> None:
    steps = [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
        {"type": "message", "input_tokens": 23_000, "output_tokens": 1_000},
    ]
    usage = {"input_tokens": 23_000, "output_tokens": 1_000, "iterations": steps}
    assert Usage.billed(usage) == Usage(uncached=203_000, output=4_500)
    assert Usage.billed({**usage, "iterations": steps[1:]}) == Usage(uncached=23_000, output=1_000)
    for odd in (7, [7], {"type": "compaction"}):
        with pytest.raises(Exception, match="iterations"):
            Usage.billed({**usage, "iterations": odd})


def test_a_block_that_failed_does_not_take_the_place_of_an_older_one() -> None:
    summary = {"type": "compaction", "content": "So far all is well."}
    said = {"type": "text", "text": "A tug."}
    entries = [
        {"role": "user", "content": "Which berth?"},
        {"role": "assistant", "content": [summary, said]},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "content": [{**summary, "content": None}, said]},
        {"role": "user", "content": "Thanks."},
    ]
    assert formats.parse(entries, "anthropic").bound == (1,)
