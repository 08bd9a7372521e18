"""ProviderPolicy: a request's options of caching, and of shortening by the provider itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

import rehydrate
from rehydrate import Context
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt import CompiledPrompt, ProviderPolicy

RULES = "You are the harbour's assistant. " * 300
ALL = ProviderPolicy(
    cache_key="harbour",
    cache_retention="24h",
    cache_breakpoints=True,
    clear_tool_uses_at=60_000,
    keep_tool_uses=2,
    clear_at_least=5_000,
    compact_at=150_000,
)


def talked(
    provider: Any, policy: ProviderPolicy, turns: int = 3, size: int = 40
) -> list[CompiledPrompt]:
    context = Context(provider=provider, system=RULES, policy=policy)
    made = []
    for turn in range(turns):
        made.append(context.prompt(f"What is at berth {turn}? " + "It is noon. " * size))
        context.add({"role": "assistant", "content": f"Ship {turn}. " + "All is well. " * size})
    return made


@pytest.mark.parametrize(
    "provider", ["anthropic", "openai_chat", "openai_responses", "bedrock", "gemini"]
)
def test_without_a_policy_a_request_has_no_other_field(provider: str) -> None:
    (prompt,) = talked(provider, ProviderPolicy(), 1)
    own = {"messages", "input", "system", "contents", "systemInstruction"}
    assert prompt.request.keys() <= own
    assert prompt.betas == ()


def test_anthropic_gets_its_edits_and_says_which_betas_they_need() -> None:
    (prompt,) = talked("anthropic", ALL, 1)
    assert prompt.request["context_management"] == {
        "edits": [
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": 60_000},
                "keep": {"type": "tool_uses", "value": 2},
                "clear_at_least": {"type": "input_tokens", "value": 5_000},
            },
            {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 150_000}},
        ]
    }
    assert prompt.betas == ("context-management-2025-06-27", "compact-2026-01-12")
    assert "prompt_cache_key" not in prompt.request
    assert CompiledPrompt.from_json(prompt.to_json()).betas == prompt.betas


def test_the_edits_are_what_the_sdk_takes() -> None:
    anthropic = pytest.importorskip("anthropic")
    pydantic = pytest.importorskip("pydantic")
    edits = pydantic.TypeAdapter(anthropic.types.beta.BetaContextManagementConfigParam)
    (prompt,) = talked("anthropic", ALL, 1)
    read = edits.validate_python(prompt.request["context_management"])
    assert len(list(read["edits"])) == 2


@pytest.mark.parametrize("provider", ["openai_chat", "openai_responses"])
def test_openai_gets_its_key_its_options_and_breakpoints(provider: str) -> None:
    first, _, third = talked(provider, ALL)
    assert first.request["prompt_cache_key"] == "harbour"
    assert first.request["prompt_cache_retention"] == "24h"
    assert first.request["prompt_cache_options"] == {"mode": "explicit", "ttl": "30m"}
    assert "context_management" not in first.request
    marked = [
        at
        for at, message in enumerate(third.messages)
        if "prompt_cache_breakpoint" in json.dumps(message)
    ]
    assert [third.segments[at].breakpoint for at in range(len(third.segments))].count(True) == len(
        marked
    )
    assert 0 in marked  # the system text
    assert len(third.messages) - 1 in marked
    assert {third.messages[at]["role"] for at in marked} <= {"system", "user"}  # no assistant's
    part = third.messages[-1]["content"][-1]
    assert part["type"] == ("text" if provider == "openai_chat" else "input_text")
    assert part["prompt_cache_breakpoint"] == {"mode": "explicit"}


def test_the_longer_time_to_live_is_for_the_responses_api_alone() -> None:
    openai = pytest.importorskip("openai")
    pydantic = pytest.importorskip("pydantic")
    longer = ProviderPolicy(cache_ttl="12h")
    options = longer.fields("openai_responses")["prompt_cache_options"]
    assert options == {"ttl": "12h"}
    of_sdk = openai.types.responses.response_create_params.PromptCacheOptions
    assert pydantic.TypeAdapter(of_sdk).validate_python(options) == options
    for provider in ("openai_chat", "anthropic", "gemini", "bedrock"):
        assert longer.fields(provider) == {}
    marked = ProviderPolicy(cache_breakpoints=True, cache_ttl="12h")
    assert [
        marked.fields(f"openai_{api}")["prompt_cache_options"] for api in ("chat", "responses")
    ] == [{"mode": "explicit", "ttl": "30m"}, {"mode": "explicit", "ttl": "12h"}]


def test_a_breakpoint_of_openai_is_what_the_sdk_takes() -> None:
    openai = pytest.importorskip("openai")
    pydantic = pytest.importorskip("pydantic")
    part = openai.types.chat.ChatCompletionContentPartTextParam
    (prompt,) = talked("openai_chat", ALL, 1)
    read = pydantic.TypeAdapter(part).validate_python(prompt.messages[-1]["content"][-1])
    assert read["prompt_cache_breakpoint"] == {"mode": "explicit"}


def test_openai_without_explicit_caching_gets_no_breakpoint() -> None:
    (prompt,) = talked("openai_chat", ProviderPolicy(cache_key="k"), 1)
    assert "prompt_cache_breakpoint" not in json.dumps(prompt.request)
    assert "prompt_cache_options" not in prompt.request


def test_prompts_with_breakpoints_extend_one_another() -> None:
    before, after = talked("openai_responses", ALL)[1:]
    assert [each.digest for each in after.segments[: len(before.segments)]] == [
        each.digest for each in before.segments
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cache_key", 1),
        ("cache_retention", "48h"),
        ("cache_ttl", "24h"),
        ("cached_content", None),
        ("cache_breakpoints", "yes"),
        ("clear_tool_uses_at", 0),
        ("keep_tool_uses", -1),
        ("clear_at_least", 1.5),
        ("compact_at", "150k"),
    ],
)
def test_what_is_no_policy_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"policy: {field}"):
        ProviderPolicy(**{field: value})


def test_a_policy_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="policy"):
        Context(policy={"cache_key": "k"})  # type: ignore[arg-type]


def test_the_simulation_of_explicit_caching_reads_from_the_breakpoints() -> None:
    prompts = talked("openai_chat", ALL, 4)
    bill = rehydrate.cost.simulate(
        prompts, model="gpt-5.6-sol", policy=ALL, ttl="30m", minimum_tokens=1_024
    )
    reads = [turn.read for turn in bill.turns]
    assert reads[0] == 0
    for number in range(1, 4):  # all that was written before, to the token
        assert reads[number] == sum(each.tokens for each in prompts[number - 1].segments)
    plain = talked("openai_chat", ProviderPolicy(), 4)
    unmarked = rehydrate.cost.simulate(
        plain, model="gpt-5.6-sol", policy=ALL, ttl="30m", minimum_tokens=1_024
    )
    assert unmarked.total.read == unmarked.total.written == 0  # explicit, and nothing is marked


def test_gemini_names_its_cached_content_in_place_of_what_is_in_there() -> None:
    policy = ProviderPolicy(cached_content="cachedContents/ab12", cache_key="k")
    first, second = talked("gemini", policy, 2)
    assert first.request.keys() == {"cachedContent", "contents"}
    assert first.request["cachedContent"] == "cachedContents/ab12"
    head = sum(each.tokens for each in first.segments if each.kind != "message")
    assert head > 1_024
    options = {"model": "gemini-2.5-pro", "minimum_tokens": 1_024}
    held = rehydrate.cost.simulate([first, second], policy=policy, gaps=9_000, **options)
    assert [turn.read for turn in held.turns] == [head, head]  # after hours too
    assert rehydrate.cost.simulate([first, second], gaps=9_000, **options).total.read == 0


def test_cleared_results_cost_less_and_break_the_prefix() -> None:
    context = Context(provider="anthropic", system=RULES)
    prompts = []
    for turn in range(8):
        context.add({"role": "user", "content": f"Look up berth {turn}."})
        call = {"type": "tool_use", "id": f"t{turn}", "name": "look", "input": {"n": turn}}
        context.add({"role": "assistant", "content": [call]})
        result = {
            "type": "tool_result",
            "tool_use_id": f"t{turn}",
            "content": f"{turn} is free. " * 400,
        }
        context.add({"role": "user", "content": [result]})
        prompts.append(context.prompt())
    policy = ProviderPolicy(clear_tool_uses_at=9_000, keep_tool_uses=2)
    options = {"model": "claude-opus-5", "minimum_tokens": 512}
    whole = rehydrate.cost.simulate(prompts, **options)
    cleared = rehydrate.cost.simulate(prompts, policy=policy, **options)
    assert [turn.input for turn in cleared.turns[:3]] == [turn.input for turn in whole.turns[:3]]
    assert cleared.turns[-1].input < whole.turns[-1].input / 2
    assert cleared.hit_rate < whole.hit_rate  # each clearing breaks what was cached
    least = ProviderPolicy(clear_tool_uses_at=9_000, keep_tool_uses=2, clear_at_least=10**6)
    assert rehydrate.cost.simulate(prompts, policy=least, **options).turns == whole.turns
    with pytest.raises(InvalidArgumentError, match="pass compiled prompts"):
        rehydrate.cost.simulate([list(each.segments) for each in prompts], policy=policy, **options)


def test_a_summary_above_the_threshold_is_paid_once_and_read_after() -> None:
    prompts = talked("anthropic", ProviderPolicy(), 9, size=400)
    total = [prompt.tokens for prompt in prompts]
    limit = total[6]
    policy = ProviderPolicy(compact_at=limit)
    bill = rehydrate.cost.simulate(
        prompts, policy=policy, model="claude-opus-5", minimum_tokens=512
    )
    inputs = [turn.input for turn in bill.turns]
    assert inputs[:7] == total[:7]
    assert inputs[7] > total[7]  # read to write the summary, and then once more without it
    assert bill.turns[7].output == 2_000
    assert sum(turn.output for turn in bill.turns) == 2_000
    assert inputs[8] == total[8] - total[7] + 2_000 + sum(
        each.tokens for each in prompts[0].segments if each.kind != "message"
    )
