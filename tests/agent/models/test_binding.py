"""AnthropicModel and thinking that is bound to its prefix: what it asks for and reports."""

import anyio
import pytest

from rehydrate import Context
from rehydrate.agent import AnthropicModel, InputTransformed, Interpreter
from rehydrate.errors import InvalidArgumentError

strict = pytest.importorskip("tests.provider")

MODEL = "claude-opus-5-5"
DROPPED = {
    "type": "thinking_dropped",
    "path": "messages.1.content.0",
    "reason": "prefix_binding_mismatch",
}


def respond(request, wire):
    return strict.ScriptedReply(f"Berth {len(request['messages'])}.", thinking="Hm.")


def model_for(provider, **options):
    options = {"thinking": {"type": "adaptive"}, **options}
    return AnthropicModel(MODEL, base_url=provider.url, api_key="k", **options)


@pytest.fixture
def provider():
    with strict.StrictProvider(respond, binds_thinking=None) as provider:
        yield provider


def edited_turn(provider, is_streamed=False, **options):
    """A turn whose history was changed since the model thought."""

    async def run():
        async with model_for(provider, **options) as model:
            first = Context(model=MODEL)
            reply = await model.reply(await first.aprompt("Which berth?"))
            context = Context(model=MODEL)
            context.add({"role": "user", "content": "Which berth is free?"}, *reply.entries)
            on_event = (lambda event: None) if is_streamed else None
            return await Interpreter(model, on_event=on_event).arun(context, "And then?")

    return anyio.run(run)


def test_without_a_wish_a_changed_history_is_refused_in_the_providers_words(provider):
    turn = edited_turn(provider)
    assert turn.stopped == "failed"
    assert "The block is bound to a different conversation." in str(turn.error)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_blocks_are_dropped_by_wish_and_event_note_and_reply_say_so(provider, is_streamed):
    turn = edited_turn(provider, is_streamed, prefix_mismatch="drop_block")
    assert turn.stopped == "answer" and provider.refusals == []
    (event,) = [each for each in turn.events if isinstance(each, InputTransformed)]
    assert event.transformations == (DROPPED,)
    assert event.to_dict()["transformations"] == [DROPPED]
    (note,) = turn.notes
    assert "prefix_binding_mismatch" in note and "messages.1.content.0" in note


def test_an_error_is_asked_for_too_where_the_check_is_wished_for(provider):
    assert edited_turn(provider, prefix_mismatch="error").stopped == "failed"
    body = provider.requests[-1].body
    assert body["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "error"}


def test_a_reply_to_what_only_grew_reports_nothing(provider):
    async def run():
        async with model_for(provider, prefix_mismatch="drop_block") as model:
            context = Context(model=MODEL)
            for question in ("Which berth?", "And then?"):
                reply = await model.reply(await context.aprompt(question))
                context.add(*reply.entries)
                assert reply.input_transformations == ()

    anyio.run(run)
    assert provider.refusals == []


def test_it_is_asked_for_with_adaptive_thinking_and_the_beta_next_to_ones_own():
    model = AnthropicModel(MODEL, prefix_mismatch="drop_block", betas=["b-1"], api_key="k")
    assert model._options["betas"] == ["b-1", "thinking-binding-controls-2026-08-01"]
    binding = {"prefix_mismatch_behavior": "drop_block"}
    assert model._options["thinking"] == {"type": "adaptive", "block_binding": binding}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prefix_mismatch": "drop"}, "prefix_mismatch is 'drop'; choose 'error' or 'drop_block'"),
        (
            {"prefix_mismatch": "error", "thinking": {"type": "disabled"}},
            "prefix_mismatch goes with adaptive thinking",
        ),
        ({"temperature": 1.0, "top_k": 5}, "temperature, top_k: the API takes no such parameter"),
        ({"top_p": 0.9}, "since its version 2026-10-21; leave it out"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(options, words):
    with pytest.raises(InvalidArgumentError, match=words):
        AnthropicModel(MODEL, api_key="k", **options)
