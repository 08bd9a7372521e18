"""Telemetry: the spans and metrics of turns, collected by the SDK in memory."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from rehydrate.agent import (
    Compacted,
    Noted,
    Retrying,
    ToolEnded,
    ToolStarted,
    Turn,
    TurnEnded,
    TurnStarted,
)
from rehydrate.errors import RateLimitError
from tests.agent.recorded import (
    MODEL,
    REQUEST,
    SECRET,
    TOOL,
    Recorder,
    built,
    ended,
    nothing_stays_current,  # noqa: F401  for every test
    replied,
    started,
    whole_turn,
)

CLIENT = SpanKind.CLIENT


def test_a_turn_is_a_span_with_its_model_and_its_tools_within() -> None:
    recorder = Recorder().send(*whole_turn("conversation-7"))
    turn = recorder.span("invoke_agent")
    names = [span.name for span in recorder.spans if span is not turn]
    chat = f"chat {MODEL}"
    assert sorted(names) == [chat, chat, "execute_tool berths", "execute_tool request_context"]
    for span in recorder.spans:
        assert not span.instrumentation_scope.schema_url
        assert span.status.status_code is StatusCode.UNSET
        if span is not turn:
            assert span.parent.span_id == turn.context.span_id
            assert span.end_time >= span.start_time
    assert turn.parent is None
    assert turn.kind is SpanKind.INTERNAL
    assert turn.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": MODEL,
        "gen_ai.conversation.id": "conversation-7",
        "gen_ai.usage.input_tokens": 900,
        "gen_ai.usage.output_tokens": 20,
        "rehydrate.stopped": "answer",
        "rehydrate.steps": 1,
        "rehydrate.dollars": 0.003,
        "rehydrate.late_bound.sections": 2,
        "rehydrate.late_bound.tokens": 150,
        "rehydrate.context_requests": 1,
    }


def test_a_models_reply_says_what_was_asked_answered_and_billed() -> None:
    recorder = Recorder().send(started(), built(), replied(), ended())
    chat = recorder.span(f"chat {MODEL}")
    assert chat.kind is CLIENT
    assert chat.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": MODEL,
        "gen_ai.response.model": f"{MODEL}-1",
        "gen_ai.response.id": "msg_1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 900,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 400,
        "gen_ai.usage.cache_write.input_tokens": 100,
        "rehydrate.step": 1,
        "rehydrate.calls": 0,
        "rehydrate.dollars": 0.003,
        "rehydrate.prompt.tokens": 900,
        "rehydrate.prompt.upper_bound_tokens": 990,
        "rehydrate.prompt.shared_tokens": 400,
        "rehydrate.prompt.sections": 3,
        "rehydrate.prompt.seconds": 0.0025,
        "rehydrate.prefix.kept": True,
    }


def test_both_wire_formats_of_openai_are_the_provider_openai() -> None:
    for provider in ("openai_chat", "openai_responses"):
        recorder = Recorder().send(TurnStarted("?", provider, "gpt-5"), built(), replied(), ended())
        assert {span.attributes["gen_ai.provider.name"] for span in recorder.spans} == {"openai"}


def test_a_tool_says_its_name_its_call_and_that_it_failed() -> None:
    failed = ToolEnded(1, "toolu_1", "berths", True, 12, 4.0, SECRET)
    recorder = Recorder().send(started(), TOOL[0], failed, ended())
    tool = recorder.span("execute_tool berths")
    assert tool.kind is SpanKind.INTERNAL
    assert tool.status.status_code is StatusCode.ERROR
    assert tool.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "berths",
        "gen_ai.tool.call.id": "toolu_1",
        "gen_ai.tool.type": "function",
        "rehydrate.result.chars": 12,
        "error.type": "tool_error",
    }
    assert recorder.span("invoke_agent").status.status_code is StatusCode.UNSET


def test_a_request_for_context_says_what_was_late_bound() -> None:
    recorder = Recorder().send(started(), *REQUEST, ended())
    request = recorder.span("execute_tool request_context")
    assert request.end_time - request.start_time >= 8_000_000
    assert request.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "request_context",
        "gen_ai.tool.call.id": "toolu_2",
        "gen_ai.tool.type": "datastore",
        "rehydrate.request.scope": "semantic",
        "rehydrate.request.sections": 2,
        "rehydrate.request.tokens": 150,
        "rehydrate.request.remaining": 1,
    }


def everything_recorded(recorder: Recorder) -> str:
    return "".join(span.to_json() for span in recorder.spans) + str(
        recorder.reader.get_metrics_data()
    )


def test_nothing_that_was_said_is_recorded_unless_asked_for() -> None:
    events = whole_turn()
    events[3:3] = [
        Retrying(1, RateLimitError("anthropic", 429, SECRET), 2, 0.0),
        Noted(SECRET),
    ]
    events[-1] = ended("failed", error=ValueError(SECRET), notes=(SECRET,))
    assert SECRET not in everything_recorded(Recorder().send(*events))
    assert SECRET in everything_recorded(Recorder(content=True).send(*events))


def test_content_is_recorded_in_the_conventions_shape_where_it_is_asked_for() -> None:
    recorder = Recorder(content=True).send(*whole_turn())
    turn = recorder.span("invoke_agent").attributes
    part = {"type": "text", "content": SECRET}
    assert json.loads(turn["gen_ai.input.messages"]) == [{"role": "user", "parts": [part]}]
    assert json.loads(turn["gen_ai.output.messages"]) == [{"role": "assistant", "parts": [part]}]
    tool = recorder.span("execute_tool berths").attributes
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"quay": SECRET}
    assert tool["gen_ai.tool.call.result"] == SECRET
    request = recorder.span("execute_tool request_context").attributes
    assert request["gen_ai.retrieval.query.text"] == SECRET
    chats = [span.attributes for span in recorder.spans if span.name.startswith("chat")]
    assert [json.loads(chat["gen_ai.output.messages"])[0]["finish_reason"] for chat in chats] == [
        "tool_call",
        "stop",
    ]


def test_arguments_that_are_no_json_are_recorded_as_they_came() -> None:
    broken = ToolStarted(1, "toolu_1", "berths", '{"quay": \udcff')
    recorder = Recorder(content=True).send(started(), broken, TOOL[1], ended())
    recorded = recorder.span("execute_tool berths").attributes["gen_ai.tool.call.arguments"]
    assert recorded == '{"quay": \ufffd'


def test_a_streamed_reply_says_when_its_first_piece_came() -> None:
    recorder = Recorder().send(*whole_turn())
    plain, streamed = [span.attributes for span in recorder.spans if span.name.startswith("chat")]
    assert "gen_ai.request.stream" not in plain
    assert streamed["gen_ai.request.stream"] is True
    assert streamed["gen_ai.response.time_to_first_chunk"] >= 0


def test_each_attempt_is_a_span_with_its_error() -> None:
    limited = RateLimitError("anthropic", 429, "slow down")
    recorder = Recorder().send(started(), built(), Retrying(1, limited, 2, 0.0), replied(), ended())
    first, second = [span for span in recorder.spans if span.name.startswith("chat")]
    assert first.attributes["error.type"] == "rehydrate.errors.RateLimitError"
    assert first.status.status_code is StatusCode.ERROR
    assert first.status.description is None
    assert second.status.status_code is StatusCode.UNSET
    assert recorder.span("invoke_agent").attributes["rehydrate.retries"] == 1


def test_an_attempt_that_came_sooner_than_foreseen_is_a_span_all_the_same() -> None:
    limited = RateLimitError("anthropic", 429, "slow down")
    late = Retrying(1, limited, 2, 900.0)
    recorder = Recorder().send(started(), built(), late, late, replied(), ended())
    chats = [span.attributes.get("error.type") for span in recorder.spans if span.kind is CLIENT]
    assert chats == ["rehydrate.errors.RateLimitError"] * 2 + [None]
    assert sum(point.count for point in recorder.points("gen_ai.client.operation.duration")) == 3


def test_an_attempt_that_never_came_is_no_span() -> None:
    limited = RateLimitError("anthropic", 429, "slow down")
    recorder = Recorder().send(
        started(), built(), Retrying(1, limited, 2, 900.0), ended("cancelled")
    )
    (only,) = [span for span in recorder.spans if span.name.startswith("chat")]
    assert only.attributes["error.type"] == "rehydrate.errors.RateLimitError"


def test_a_prompt_that_is_too_long_is_an_error_of_its_own_span_and_a_compaction() -> None:
    overflow = Compacted(900, 450, "overflow")
    recorder = Recorder().send(started(), built(), overflow, built(), replied(), ended())
    first, second = [span for span in recorder.spans if span.name.startswith("chat")]
    assert first.attributes["error.type"] == "rehydrate.errors.ContextOverflowError"
    assert "error.type" not in second.attributes
    turn = recorder.span("invoke_agent").attributes
    assert turn["rehydrate.compactions"] == 1
    assert turn["rehydrate.compacted_tokens"] == 450
    (point,) = recorder.points("rehydrate.compactions")
    assert (point.value, dict(point.attributes)) == (1, {"rehydrate.why": "overflow"})


def test_a_request_that_failed_is_counted_with_no_tokens() -> None:
    error = ended("failed", error=RateLimitError("anthropic", 429, "slow down"))
    recorder = Recorder().send(started(), built(), error)
    (tokens,) = recorder.points("gen_ai.client.inference.operation.input_tokens")
    assert (tokens.sum, tokens.count) == (0, 1)
    assert tokens.attributes["error.type"] == "rehydrate.errors.RateLimitError"
    (spent,) = recorder.points("gen_ai.client.inference.usage.input_tokens")
    assert spent.value == 0
    assert "error.type" not in spent.attributes


def test_a_compacted_view_is_said_of_each_request_and_each_attempt() -> None:
    limited = Retrying(1, RateLimitError("anthropic", 429, "slow down"), 2, 0.0)
    view = replace(built(), is_compacted=True)
    recorder = Recorder().send(started(), view, limited, replied(), built(2), replied(2), ended())
    chats = [span for span in recorder.spans if span.name.startswith("chat")]
    name = "gen_ai.conversation.compacted"
    assert [span.attributes.get(name) for span in chats] == [True, True, None]


def test_what_stands_for_the_compacted_conversation_is_a_compaction_part() -> None:
    sent = replace(built(), is_compacted=True, summaries=(SECRET,), provider_summaries=("", "Old."))
    answer = replace(replied(), provider_summaries=("Older.",))
    recorder = Recorder(content=True).send(started(), sent, answer, ended())
    chat = recorder.span(f"chat {MODEL}").attributes
    encrypted, own = {"type": "compaction"}, {"type": "compaction", "content": SECRET}
    old, older = ({"type": "compaction", "content": text} for text in ("Old.", "Older."))
    assert json.loads(chat["gen_ai.input.messages"]) == [
        {"role": "assistant", "parts": [encrypted, old]},
        {"role": "user", "parts": [own]},
    ]
    (reply,) = json.loads(chat["gen_ai.output.messages"])
    assert reply["parts"] == [older, {"type": "text", "content": SECRET}]
    without = Recorder().send(started(), sent, answer, ended())
    assert SECRET not in everything_recorded(without)
    assert "gen_ai.input.messages" not in without.span(f"chat {MODEL}").attributes


def test_a_prefix_that_is_lost_is_counted() -> None:
    recorder = Recorder().send(started(), built(kept=False), replied(), ended())
    assert recorder.span("invoke_agent").attributes["rehydrate.prefix.breaks"] == 1
    assert recorder.points("rehydrate.prefix.breaks")[0].value == 1


@pytest.mark.parametrize(
    ("stopped", "error", "kind"),
    [
        ("answer", None, None),
        ("refusal", None, None),
        ("length", None, None),
        ("step_limit", None, "step_limit"),
        ("time_limit", None, "time_limit"),
        ("cancelled", None, "cancelled"),
        ("failed", ValueError("no"), "ValueError"),
        ("failed", RateLimitError("x", 429, "no"), "rehydrate.errors.RateLimitError"),
        ("failed", None, "failed"),
    ],
)
def test_how_a_turn_ended_is_its_error_and_that_of_what_it_cut_short(
    stopped: str, error: Exception | None, kind: str | None
) -> None:
    recorder = Recorder().send(started(), built(), TOOL[0], ended(stopped, error=error))
    turn = recorder.span("invoke_agent")
    assert turn.attributes.get("error.type") == kind
    assert (turn.status.status_code is StatusCode.ERROR) == (kind is not None)
    for name in (f"chat {MODEL}", "execute_tool berths"):
        assert recorder.span(name).attributes["error.type"] == (kind or "_OTHER")


def test_the_metrics_have_the_conventions_names_units_and_buckets() -> None:
    recorder = Recorder(agent="harbour master").send(*whole_turn("conversation-7"))
    of_chats = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": MODEL,
        "gen_ai.response.model": f"{MODEL}-1",
    }
    for kind, total in (("input_tokens", 1800), ("output_tokens", 40)):
        (tokens,) = recorder.points(f"gen_ai.client.inference.operation.{kind}")
        assert (tokens.sum, tokens.count, dict(tokens.attributes)) == (total, 2, of_chats)
        assert tokens.explicit_bounds[:4] == (1, 4, 16, 64)
        assert tokens.explicit_bounds[-1] == 67108864
    counted = {"input_tokens": 1800, "output_tokens": 40}
    counted |= {"cache_read.input_tokens": 800, "cache_write.input_tokens": 200}
    for kind, total in counted.items():
        (tokens,) = recorder.points(f"gen_ai.client.inference.usage.{kind}")
        modality = {"gen_ai.token.modality": "unknown"}
        assert (tokens.value, dict(tokens.attributes)) == (total, {**of_chats, **modality})
    (chat,) = recorder.points("gen_ai.client.operation.duration")
    assert dict(chat.attributes) == of_chats
    assert chat.count == 2
    assert chat.explicit_bounds[0] == 0.01
    assert chat.explicit_bounds[-1] == 81.92
    (turn,) = recorder.points("gen_ai.invoke_agent.duration")
    assert dict(turn.attributes) == {
        "gen_ai.agent.name": "harbour master",
        "gen_ai.request.model": MODEL,
    }
    assert turn.explicit_bounds[-1] == 409.6
    tools = recorder.points("gen_ai.execute_tool.duration")
    assert {point.attributes["gen_ai.tool.name"] for point in tools} == {
        "berths",
        "request_context",
    }
    (late,) = recorder.points("rehydrate.late_bound.tokens")
    assert (late.value, dict(late.attributes)) == (150, {"rehydrate.source": "semantic"})


def test_the_duration_that_is_measured_is_that_of_the_span() -> None:
    recorder = Recorder(agent="harbour master").send(started(), built(), replied(), ended())
    span = recorder.span("invoke_agent harbour master")
    (point,) = recorder.points("gen_ai.invoke_agent.duration")
    assert point.sum == pytest.approx((span.end_time - span.start_time) / 1e9)
    assert span.attributes["gen_ai.agent.name"] == "harbour master"


def test_a_turn_without_price_or_thread_leaves_them_out() -> None:
    recorder = Recorder().send(started(query=None), TurnEnded(Turn("", "answer")))
    attributes = recorder.span("invoke_agent").attributes
    assert "rehydrate.dollars" not in attributes
    assert "gen_ai.conversation.id" not in attributes
