"""Thoughts of the Messages API: taken back as they were given, refused once they were touched."""

import copy

import pytest

from tests.provider import Call, Says
from tests.provider.asking import anthropic_served, refusal_of
from tests.provider.seal import Seal

TOOLS = [{"name": "get", "input_schema": {"type": "object"}}]
ASK = {"role": "user", "content": "Go on."}
ENABLED = {"type": "enabled", "budget_tokens": 1024}


def brain(request, wire):
    return Says("Well.", thinking="I should look.", calls=(Call("get"),))


def asked(messages, thinking=ENABLED):
    return {
        "model": "claude-test",
        "max_tokens": 4096,
        "tools": TOOLS,
        "thinking": thinking,
        "messages": messages,
    }


def round_of(client, messages, thinking=ENABLED):
    """The messages after one more call and its result."""
    content = client.messages.create(**asked(messages, thinking)).model_dump(exclude_none=True)[
        "content"
    ]
    result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "found"}
    spoken = {"role": "assistant", "content": content}
    return [*messages, spoken, {"role": "user", "content": [result]}]


@pytest.fixture(scope="module")
def client():
    with anthropic_served(brain) as (_, client):
        yield client


@pytest.fixture
def messages(client):
    return round_of(client, [ASK])


def refusal(client, messages, thinking=ENABLED):
    return refusal_of(client, "/v1/messages", asked(messages, thinking))


def edited(messages, index, **changes):
    """A copy with the first block of one message changed."""
    copied = copy.deepcopy(messages)
    copied[index]["content"][0].update(changes)
    return copied


def without_thought(messages, index):
    copied = copy.deepcopy(messages)
    del copied[index]["content"][0]
    return copied


def test_a_thought_is_taken_as_it_was_given(client, messages):
    assert refusal(client, messages) is None


@pytest.mark.parametrize("change", [{"thinking": "I should not."}, {"signature": "c2ln"}])
def test_an_edited_thought_is_refused(client, messages, change):
    later = round_of(client, messages)
    words = "messages.1.content.0: Invalid `signature` in `thinking` block"
    assert refusal(client, edited(later, 1, **change)) == words
    words = "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant"
    assert refusal(client, edited(messages, 1, **change)).startswith(words)


def test_an_edited_thought_is_refused_where_thinking_is_off_too(client, messages):
    changed = edited(messages, 1, signature="c2ln")
    del changed[1]["content"][-1]["id"]
    changed[1]["content"][-1]["id"] = changed[2]["content"][0]["tool_use_id"] = "toolu_other"
    assert "Invalid `signature`" in refusal(client, changed, {"type": "disabled"})


def test_a_thought_without_its_signature_is_refused(client, messages):
    del messages[1]["content"][0]["signature"]
    words = "messages.1.content.0.thinking.signature: Field required"
    assert refusal(client, messages) == words


def test_a_thought_is_not_marked(client, messages):
    changed = edited(messages, 1, cache_control={"type": "ephemeral"})
    words = "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted"
    assert refusal(client, changed) == words


def test_the_open_turn_starts_with_its_thought(client, messages):
    changed = without_thought(messages, 1)
    words = (
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`."
    )
    assert refusal(client, changed).startswith(words)
    assert refusal(client, changed, {"type": "adaptive"}) is None
    assert refusal(client, changed, {"type": "disabled"}) is None


def test_thoughts_of_turns_that_are_over_may_be_left_out(client, messages):
    over = [*messages, {"role": "assistant", "content": "Done."}, ASK]
    assert refusal(client, without_thought(over, 1)) is None


def test_the_open_turn_starts_where_the_user_spoke_last(client, messages):
    later = round_of(client, messages)
    assert refusal(client, without_thought(later, 3)) is None
    assert refusal(client, without_thought(later, 1)).startswith("messages.1.content.0.type")


def test_another_providers_thought_is_refused(messages):
    with anthropic_served(brain, seal=Seal(b"another")) as (_, client):
        assert "Invalid `signature`" in refusal(client, messages)
    with anthropic_served(brain, checks_seals=False) as (_, client):
        assert refusal(client, edited(messages, 1, signature="c2ln")) is None


def test_a_newer_models_thought_belongs_to_its_conversation():
    with anthropic_served(brain, binds_thinking=True) as (_, client):
        messages = round_of(client, [ASK])
        later = round_of(client, messages)
        assert refusal(client, later) is None
        marked = copy.deepcopy(later)
        marked[2]["content"][0]["cache_control"] = {"type": "ephemeral"}
        assert refusal(client, marked) is None
        longer = [{"role": "user", "content": "First of all."}, *later]
        words = "messages.2.content.0: Invalid `signature` in `thinking` block. The block is"
        assert refusal(client, longer).startswith(words)
