"""repair_reply: whatever a model replies, its provider accepts the history."""

import json

import pytest
from hypothesis import event, given, strategies as st

from rehydrate import Context, formats, validate
from rehydrate.agent import Interpreter, Reply, TurnLimits
from rehydrate.agent.tool_calls import repair_reply
from tests.agent.script import PROVIDERS, Script, call_reply, results, text_reply

USER = {"role": "user", "content": "Go."}
STOPS = st.sampled_from(["answer", "calls", "length", "refusal", "pause"])
TEXTS = st.sampled_from(["", " ", "\n", "Berth 4.", "half a pair"])
ARGUMENTS = st.sampled_from([{"quay": "B"}, {}, {"quay": 4}, {"key": None}])
RAW = ARGUMENTS | st.sampled_from(["", "{", '{"quay": "B', "[]", "null", '"text"', "{}"])
IDS = st.sampled_from(["call_0", "call_1", "call_0_2", "toolu_x"])
NAMES = st.sampled_from(["berth", "berth", "depth", "request_context", ""])


@st.composite
def replies(draw, provider):
    made = draw(st.lists(st.tuples(IDS, NAMES, RAW), max_size=3))
    text, stop = draw(TEXTS), draw(STOPS)
    if not made:
        return text_reply(text, provider, stop)
    return call_reply(*made, provider=provider, stop=stop, text=text)


def berth(quay: str) -> str:
    """The free berth at a quay."""
    if quay == "B":
        return "berth 4"
    raise LookupError(quay)


@pytest.mark.parametrize("provider", PROVIDERS)
@given(data=st.data())
def test_whatever_a_model_says_the_history_is_valid_and_every_call_is_answered(provider, data):
    lines = data.draw(st.lists(replies(provider), min_size=1, max_size=6))
    model = Script(*lines, text_reply("Done.", provider), provider=provider)
    context = Context(provider=provider)
    interpreter = Interpreter(model, [berth], limits=TurnLimits(steps=5))
    for _ in range(3):
        turn = interpreter.run(context, "Go.")
        event(turn.stopped)
        assert turn.error is None
        assert validate(context.history, provider) == []
        assert validate([*context.history, USER], provider) == []
        said = formats.parse(context.history, provider).messages
        made = [id_ for message in said for id_ in message.calls]
        answered = results(context.history)
        assert set(made) == set(answered)
        for prompt in model.prompts:
            assert validate(prompt.messages, provider) == []
            json.dumps(prompt.request)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_reply_that_is_as_it_should_be_is_not_touched(provider):
    reply = call_reply(
        ("a", "berth", {"quay": "B"}), ("b", "berth", {}), provider=provider, text="So:"
    )
    assert repair_reply(reply, {"c"}) == (reply, [])
    assert repair_reply(reply, {"c"})[0] is reply


def test_what_a_provider_put_next_to_the_calls_stays_the_very_same_object():
    thought = {"type": "thinking", "thinking": "B is deep.", "signature": "sig"}
    unknown = {"type": "something_new", "id": "x", "data": [1]}
    reply = call_reply(("a", "berth", {"quay": "B"}))
    (entry,) = reply.entries
    blocks = [thought, unknown, *entry["content"]]
    whole = Reply(({**entry, "content": blocks, "extra": 1},), calls=reply.calls)
    repaired, notes = repair_reply(whole, {"a"})
    (entry_after,) = repaired.entries
    assert entry_after["content"][0] is thought
    assert entry_after["content"][1] is unknown
    assert entry_after["content"][2] == {**entry["content"][0], "id": "a_2"}
    assert entry_after["extra"] == 1
    assert repaired.calls[0].id == "a_2"
    assert notes == ["the model used the call id 'a' twice; it is 'a_2' now"]


def test_the_models_own_arguments_are_named_in_the_error_though_the_history_has_none():
    reply = call_reply(("a", "berth", '{"quay": "B'), provider="openai_chat")
    context = Context(provider="openai_chat")
    model = Script(reply, text_reply("x", "openai_chat"), provider="openai_chat")
    Interpreter(model, [berth], jit=False).run(context, "Go.")
    (call,) = context.history[1]["tool_calls"]
    assert call["function"]["arguments"] == "{}"
    assert '{"quay": "B' in results(context.history)["a"]
