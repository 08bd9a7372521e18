"""The provider of a context that names none: by the model's name, or by what is added."""

import pytest

import rehydrate
from rehydrate import Context
from rehydrate.agent import Interpreter
from rehydrate.context import Threads
from rehydrate.errors import InvalidArgumentError, InvalidMessageError
from rehydrate.messages import provider_of

USER = {"role": "user", "content": "Which berth is free?"}
CALL = {"name": "berths", "arguments": "{}"}
CHAT = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": CALL}],
}
ITEM = {"type": "function_call", "call_id": "c1", **CALL}
CONVERSE = {"role": "user", "content": [{"text": "Which berth is free?"}]}
BLOCKS = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "t1", "name": "berths", "input": {}}],
}


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("claude-opus-4-6", "anthropic"),
        ("claude-sonnet-4-5@20250929", "anthropic"),
        ("anthropic/claude-sonnet-4.5", "anthropic"),
        ("gpt-5.1", "openai_chat"),
        ("GPT-4o-mini", "openai_chat"),
        ("ft:gpt-4o-mini:harbour::1", "openai_chat"),
        ("openai/gpt-5", "openai_chat"),
        ("o3", "openai_chat"),
        ("o4-mini-2025-04-16", "openai_chat"),
        ("gemini-2.5-pro", "gemini"),
        ("anthropic.claude-opus-4-6-v1", "bedrock"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock"),
        ("amazon.nova-pro-v1:0", "bedrock"),
        ("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude", "bedrock"),
        ("arn:aws-us-gov:bedrock:us-gov-west-1:1:provisioned-model/x", "bedrock"),
        ("harbour-7b", None),
        ("my-claude", None),
        ("o-harbour", None),
        ("", None),
    ],
)
def test_a_models_name_suggests_its_provider(model, provider):
    assert provider_of(model) == provider
    assert Context(model=model).provider == (provider or "anthropic")


@pytest.mark.parametrize(
    ("entry", "provider"),
    [
        (CHAT, "openai_chat"),
        (ITEM, "openai_responses"),
        (CONVERSE, "bedrock"),
        (BLOCKS, "anthropic"),
        (USER, "anthropic"),
    ],
)
def test_the_first_entry_that_only_one_provider_takes_decides(entry, provider):
    for model in ("", "harbour-7b"):
        context = Context(model=model)
        context.add(USER) if provider != "bedrock" else None
        context.add(entry)
        assert (context.provider, context.format) == (provider, provider)
        assert context.history[-1] is entry


def test_an_entry_beats_the_models_name_and_a_hint_does_not():
    context = Context(model="gpt-5.1")
    context.add(ITEM)
    assert context.provider == "openai_responses"
    for model in ("gpt-5.1", "claude-opus-5"):  # neither provider takes a text without a type
        context = Context(model=model)
        context.add(CONVERSE)
        assert context.provider == "bedrock"
    context = Context(model="gpt-5.1")
    marked = {"type": "text", "text": "Hello.", "cache_control": {"type": "ephemeral"}}
    context.add({"role": "user", "content": [marked]})
    assert context.provider == "openai_chat"
    assert "messages" in context.prompt().request


def test_an_explicit_provider_or_format_wins_and_refuses_what_it_did():
    for options in ({"provider": "anthropic"}, {"format": "anthropic"}):
        context = Context(model="gpt-5.1", **options)
        assert context.provider == "anthropic"
        with pytest.raises(InvalidMessageError, match="one of openai_chat"):
            context.add(CHAT)


def test_the_first_prompt_settles_the_provider():
    context = Context()
    context.prompt("Which berth is free?")
    with pytest.raises(InvalidMessageError, match="one of openai_chat"):
        context.add(CHAT)
    assert context.provider == "anthropic"


def test_a_refused_entry_leaves_the_provider_open():
    context = Context()
    with pytest.raises(InvalidMessageError):
        context.add(CHAT, {"role": "pilot", "content": "Hello."})
    assert (context.provider, context.format, context.history) == ("anthropic", "anthropic", [])
    context.add(ITEM)
    assert context.provider == "openai_responses"


@pytest.mark.parametrize(
    "settle",
    [
        lambda context: context.add(ITEM),
        lambda context: context.name_model("harbour-7b", provider="openai_responses"),
    ],
)
def test_a_provider_that_cannot_take_what_was_added_loses_none_of_it(settle):
    context = Context()
    parts = {"role": "user", "content": [{"type": "text", "text": "Berth 4 is mine."}]}
    context.add(parts)
    with pytest.raises(InvalidMessageError, match="make the Context with format='openai_chat'"):
        settle(context)
    assert (context.provider, context.format, context.history) == (
        "anthropic",
        "anthropic",
        [parts],
    )
    assert context.prompt("Which is?").messages[0] == parts


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "amazon.nova-pro-v1:0"])
def test_what_was_added_is_read_again_as_it_was_added(model):
    context = Context(model=model)
    context.add(USER)
    context.add(CHAT)
    assert context.format == "openai_chat"
    assert context.history[0] is USER


def test_an_interpreters_model_settles_a_provider_that_nothing_named():
    model = rehydrate.testing.ScriptedModel(["Berth 4."], provider="openai_chat", name="harbour-7b")
    context = Context()
    context.add(USER)
    assert Interpreter(model).run(context).answer == "Berth 4."
    assert (context.provider, context.format) == ("openai_chat", "openai_chat")
    with pytest.raises(InvalidArgumentError, match="provider='openai_chat'"):
        Interpreter(model).run(Context(provider="anthropic"), "Which berth is free?")


def test_a_stored_thread_goes_on_with_its_own_provider(tmp_path):
    with Threads.open(tmp_path / "t.db", namespace="alice") as threads:
        context = Context(threads=threads, thread="t")
        context.add(CHAT)
        context.close()
        again = Context(threads=threads, thread="t", model="claude-opus-4-6")
        assert (again.provider, again.format) == ("openai_chat", "openai_chat")
        converted = Context(threads=threads, thread="u", provider="bedrock", format="openai_chat")
        converted.add(USER)
        converted.prompt()
        converted.close()
        again = Context(threads=threads, thread="u")
        assert (again.provider, again.format) == ("bedrock", "openai_chat")


def test_what_is_on_disk_is_not_read_as_another_format(tmp_path):
    with Threads.open(tmp_path / "t.db", namespace="alice") as threads:
        context = Context(threads=threads, thread="t")
        context.add(USER)
        with pytest.raises(InvalidMessageError, match="one of openai_chat"):
            context.add(CHAT)


@pytest.mark.parametrize("provider", ["anthropic", "bedrock", "gemini", "openai_chat", "ai_sdk"])
def test_no_blank_text_is_sent(provider):
    context = Context(provider=provider, system=["", " \n"])
    with pytest.raises(InvalidArgumentError, match="nothing to answer"):
        context.prompt(" ")
    first = context.prompt("Which berth is free?").request
    assert not {"system", "systemInstruction"} & set(first)
    assert context.prompt(" \n").request == first


def test_a_model_named_later_brings_its_shortest_prefix_that_is_cached():
    context, told = Context(), Context(model="claude-haiku-4-5")
    context.name_model("claude-haiku-4-5")
    for each in (context, told):
        each.add(*({"role": role, "content": "so it is " * 500} for role in ("user", "assistant")))
    one, other = (each.prompt("And then?") for each in (context, told))
    assert one.ir.breakpoints == other.ir.breakpoints == ()
    short = Context(model="claude-opus-5")
    short.name_model("claude-haiku-4-5")
    short.add(*context.history)
    assert short.prompt("And then?").ir.breakpoints
