"""Thinking of the Messages API: accepted as it was sent, refused once it was changed."""

import copy

import pytest

from tests.provider import Call, ScriptedReply
from tests.provider.sdk_clients import anthropic_served, refusal_of
from tests.provider.signer import Signer

TOOLS = [{"name": "get", "input_schema": {"type": "object"}}]
ASK = {"role": "user", "content": "Go on."}
ENABLED = {"type": "enabled", "budget_tokens": 1024}


def respond(request, wire):
    return ScriptedReply("Well.", thinking="I should look.", calls=(Call("get"),))


def request_with(messages, thinking=ENABLED):
    return {
        "model": "claude-test",
        "max_tokens": 4096,
        "tools": TOOLS,
        "thinking": thinking,
        "messages": messages,
    }


def round_of(client, messages, thinking=ENABLED):
    """The messages after one more call and its result."""
    content = client.messages.create(**request_with(messages, thinking)).model_dump(
        exclude_none=True
    )["content"]
    result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "found"}
    assistant_message = {"role": "assistant", "content": content}
    return [*messages, assistant_message, {"role": "user", "content": [result]}]


@pytest.fixture(scope="module")
def client():
    with anthropic_served(respond) as (_, client):
        yield client


@pytest.fixture
def messages(client):
    return round_of(client, [ASK])


def refusal(client, messages, thinking=ENABLED):
    return refusal_of(client, "/v1/messages", request_with(messages, thinking))


def edited(messages, index, **changes):
    """A copy with the first block of one message changed."""
    copied = copy.deepcopy(messages)
    copied[index]["content"][0].update(changes)
    return copied


def without_thinking(messages, index):
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
    changed = without_thinking(messages, 1)
    words = (
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`."
    )
    assert refusal(client, changed).startswith(words)
    assert refusal(client, changed, {"type": "adaptive"}) is None
    assert refusal(client, changed, {"type": "disabled"}) is None


def test_thoughts_of_turns_that_are_over_may_be_left_out(client, messages):
    over = [*messages, {"role": "assistant", "content": "Done."}, ASK]
    assert refusal(client, without_thinking(over, 1)) is None


def test_the_open_turn_starts_where_the_user_spoke_last(client, messages):
    later = round_of(client, messages)
    assert refusal(client, without_thinking(later, 3)) is None
    assert refusal(client, without_thinking(later, 1)).startswith("messages.1.content.0.type")


def test_another_providers_thought_is_refused(messages):
    with anthropic_served(respond, signer=Signer(b"another")) as (_, client):
        assert "Invalid `signature`" in refusal(client, messages)
    with anthropic_served(respond, checks_signatures=False) as (_, client):
        assert refusal(client, edited(messages, 1, signature="c2ln")) is None


BOUND = {"binds_thinking": True}
CONTROLS = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
ADAPTIVE = {"type": "adaptive"}
DROPS = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


@pytest.fixture
def bound():
    with anthropic_served(respond, **BOUND) as (_, client):
        first = round_of(client, [ASK], ADAPTIVE)
        second = round_of(client, first, ADAPTIVE)
        yield client, round_of(client, second, ADAPTIVE)


def mismatch_message(where, reason):
    words = (
        f"{where}: Invalid `signature` in `thinking` block. The block is bound to a different "
        "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` "
        'to "drop_block". That setting requires the `thinking-binding-controls-2026-08-01` value '
        "in the `anthropic-beta` header. "
    )
    return words + reason


def test_a_newer_models_thought_belongs_to_its_conversation(bound):
    client, later = bound
    assert refusal(client, later, ADAPTIVE) is None
    marked = copy.deepcopy(later)
    marked[2]["content"][0]["cache_control"] = {"type": "ephemeral"}
    assert refusal(client, marked, ADAPTIVE) is None
    longer = [{"role": "user", "content": "First of all."}, *later]
    reason = "Content that preceded this block when it was created is missing or differs."
    assert refusal(client, longer, ADAPTIVE) == mismatch_message("messages.2.content.0", reason)


def test_the_system_prompt_and_the_tools_come_before_every_thought(bound):
    client, later = bound
    for changed, reason in (
        ({"system": "Be brief."}, "The `system` prompt differs"),
        ({"tools": [*TOOLS, {"name": "put", "input_schema": {"type": "object"}}]}, "The `tools`"),
    ):
        request = {**request_with(later, ADAPTIVE), **changed}
        words = refusal_of(client, "/v1/messages", request)
        assert words.startswith(mismatch_message("messages.1.content.0", reason))
    deferred = {"name": "put", "input_schema": {"type": "object"}, "defer_loading": True}
    request = {**request_with(later, ADAPTIVE), "tools": [*TOOLS, deferred]}
    assert refusal_of(client, "/v1/messages", request) is None


def test_thoughts_go_from_the_front_and_the_end_and_leave_no_gap(bound):
    client, later = bound
    assert refusal(client, without_thinking(later, 1), ADAPTIVE) is None
    assert refusal(client, without_thinking(later, 5), ADAPTIVE) is None
    words = refusal(client, without_thinking(later, 3), ADAPTIVE)
    reason = "The `thinking` block that preceded this one when it was created is missing from this"
    assert words.startswith(mismatch_message("messages.5.content.0", reason))


def test_a_thought_that_comes_back_is_refused_by_those_that_came_meanwhile(bound):
    client, later = bound
    gone = without_thinking(later, 1)
    for index in (3, 5):
        gone = without_thinking(gone, index)
    after = round_of(client, gone, ADAPTIVE)
    assert refusal(client, after, ADAPTIVE) is None
    back = [*later, *after[len(gone) :]]
    assert "messages.7.content.0" in refusal(client, back, ADAPTIVE)


def test_the_controls_need_their_header(bound):
    client, later = bound
    words = "thinking.adaptive.block_binding: Extra inputs are not permitted"
    assert refusal(client, later, DROPS) == words


def test_blocks_are_dropped_where_that_is_asked_for_and_the_answer_says_which(bound):
    client, later = bound
    longer = [{"role": "user", "content": "First of all."}, *later]

    def answered(messages, thinking):
        request = request_with(messages, thinking)
        return client.post(
            "/v1/messages", cast_to=object, body=request, options={"headers": CONTROLS}
        )

    assert answered(later, ADAPTIVE)["input_transformations"] == []
    body = answered(longer, DROPS)
    assert body["input_transformations"] == [
        {
            "type": "thinking_dropped",
            "path": f"messages.{index}.content.0",
            "reason": "prefix_binding_mismatch",
        }
        for index in (2, 4, 6)
    ]
    # New thinking stays valid after them.
    result = {"type": "tool_result", "tool_use_id": body["content"][-1]["id"], "content": "found"}
    goes_on = [
        *longer,
        {"role": "assistant", "content": body["content"]},
        {"role": "user", "content": [result]},
    ]
    assert len(answered(goes_on, DROPS)["input_transformations"]) == 3
    for index in (2, 4, 6):
        goes_on = without_thinking(goes_on, index)
    assert refusal(client, goes_on, ADAPTIVE) is None


def test_it_depends_on_the_model_which_thoughts_are_bound_and_which_are_read():
    def request(messages, model):
        return {**request_with(messages, ADAPTIVE), "model": model}

    with anthropic_served(respond, binds_thinking=None) as (_, client):
        for model, is_bound in (("claude-opus-5-5", True), ("claude-opus-5", False)):
            body = client.messages.create(**request([ASK], model))
            content = body.model_dump(exclude_none=True)["content"]
            result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "ok"}
            later = [
                {"role": "user", "content": "Another."},
                {"role": "assistant", "content": content},
                {"role": "user", "content": [result]},
            ]
            words = refusal_of(client, "/v1/messages", request(later, model))
            assert (words is not None) == is_bound
        sent = {**request([ASK, *later[1:]], "claude-opus-5-5"), "thinking": DROPS}
        headers = {"headers": CONTROLS}
        body = client.post("/v1/messages", cast_to=object, body=sent, options=headers)
        assert body["input_transformations"] == []  # it can read the thinking of Opus 5
        sent["model"] = "claude-haiku-5-5"
        body = client.post("/v1/messages", cast_to=object, body=sent, options=headers)
        (dropped,) = body["input_transformations"]
        assert dropped["reason"] == "model_binding_mismatch"
