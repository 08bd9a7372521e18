"""Events: in order, complete, JSON values; and as a stream."""

import dataclasses
import json
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from rehydrate import Budget, Context, Memory, validate
from rehydrate.agent import Event, Interpreter, Retry, TextDelta, TurnEnded, TurnLimits
from rehydrate.errors import InvalidArgumentError, ProviderUnavailableError
from rehydrate.testing import ScriptedModel, call
from tests.agent.script import BACKENDS, Script, call_reply, text_reply

both = pytest.mark.parametrize("backend", BACKENDS)
SECRET = "the harbour master's secret"


def berth(quay: str) -> str:
    """The free berth at a quay."""
    return f"{SECRET}: berth 4 at {quay}"


def names(events):
    return [event.name for event in events if not isinstance(event, TextDelta)]


def run_turn(interpreter_of, context=None, query="Which?"):
    """Run a turn; return the events that the callback got, and the turn."""
    events = []
    turn = interpreter_of(on_event=events.append).run(context or Context(), query)
    return events, turn


def test_a_turn_tells_what_happens_in_order():
    model = Script(call_reply(("a", "berth", {"quay": "B"})), text_reply("Berth 4."))
    events, turn = run_turn(partial(Interpreter, model, [berth], jit=False))
    assert names(events) == [
        *("turn_started", "prompt_built", "model_replied", "budget_spent"),
        *("tool_started", "tool_ended"),
        *("prompt_built", "model_replied", "budget_spent", "turn_ended"),
    ]
    assert [event.text for event in events if event.name == "text_delta"][-2:] == ["Berth", "4."]
    assert [*turn.events, events[-1]] == [e for e in events if not isinstance(e, TextDelta)]
    assert events[-1] == TurnEnded(turn)
    built = [event for event in events if event.name == "prompt_built"]
    assert built[0].is_prefix_kept
    assert built[1].shared_tokens == built[0].tokens
    replied = [event for event in events if event.name == "model_replied"]
    assert [(event.step, event.stop, event.calls) for event in replied] == [
        (1, "calls", 1),
        (2, "answer", 0),
    ]
    assert replied[0].dollars == pytest.approx((100 * 3 + 10 * 15) / 1e6)
    ended = next(event for event in events if event.name == "tool_ended")
    assert (ended.call_id, ended.tool, ended.is_error) == ("a", "berth", False)
    assert ended.chars == len(ended.result)


class Reporting(ScriptedModel):
    """A model whose provider dropped a thinking block of each prompt."""

    async def reply(self, prompt, *, on_text=None):
        dropped = {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "any"}
        reply = await super().reply(prompt, on_text=on_text)
        return dataclasses.replace(reply, input_transformations=(dropped,))


def every_kind_of_event(tmp_path):
    """Run a turn in which every kind of event happens."""
    memory = Memory.open(tmp_path / "m.db").within("alice")
    memory.add("Staging listens on 8443.", source="notes/decisions.md")
    memory.add("Staging is deployed by hand on Tuesdays.", source="notes/decisions.md")
    context = Context(memory, timeout=None, namespace="alice", budget=Budget(3_000, 10**6))
    context.add(
        {"role": "user", "content": "The pilot's launch is painted orange. " + "deep " * 300}
    )
    context.add({"role": "assistant", "content": "Noted: orange."})
    for number in range(40):
        context.add({"role": "user", "content": f"note {number}: " + "deep water " * 60})
        context.add({"role": "assistant", "content": f"noted {number}"})
    model = Reporting(
        [
            call("berth", quay="B"),
            ProviderUnavailableError("anthropic", 529, SECRET),
            call("request_context", query=f"colour of the pilot's launch {SECRET}"),
            "",
        ]
    )
    return run_turn(
        partial(Interpreter, model, [berth], retry=Retry(base_seconds=0)),
        context,
        f"Where does staging listen? {SECRET}",
    )


def kinds(kind=Event):
    found = {each.name for each in kind.__subclasses__()}
    return found.union(*map(kinds, kind.__subclasses__()))


def test_events_are_values_that_json_has_and_without_content_hold_none(tmp_path):
    events, turn = every_kind_of_event(tmp_path)
    assert turn.stopped == "answer"
    assert {event.name for event in events} | {"text_delta"} == kinds()
    for event in events:
        document = event.to_dict()
        assert document["event"] == event.name
        assert json.loads(json.dumps(document)) == document
        if event.name != "retrying":  # the provider's error message
            assert SECRET not in json.dumps(event.to_dict(with_content=False))
    assert SECRET in json.dumps([event.to_dict() for event in events])


def test_a_turn_is_a_value_that_json_has(tmp_path):
    _, turn = every_kind_of_event(tmp_path)
    document = turn.to_dict()
    assert json.loads(json.dumps(document)) == document
    assert document["history"] == list(turn.history)
    assert len(document["events"]) == len(turn.events)
    assert document["ir"]["rehydrate"] == "prompt_ir"


def test_requested_context_is_reported_with_its_origin(tmp_path):
    events, turn = every_kind_of_event(tmp_path)
    (requested,) = [event for event in events if event.name == "context_requested"]
    assert requested.found > 0
    assert not requested.is_error
    late = [event for event in events if event.name == "section_added" and event.late_bound]
    assert len(late) == requested.found
    assert {section.id for section in turn.ir.late_bound} == {event.id for event in late}


def test_a_listener_that_fails_breaks_nothing_and_is_noted_once():
    received = []

    def fails(event):
        received.append(event.name)
        raise KeyError("no such widget")

    model = Script(call_reply(("a", "berth", {"quay": "B"})), text_reply("Berth 4."))
    turn = Interpreter(model, [berth], jit=False, on_event=fails).run(Context(), "Which?")
    assert (turn.answer, turn.stopped) == ("Berth 4.", "answer")
    assert turn.notes == ("on_event failed at turn_started: KeyError",)
    assert received[-1] == "turn_ended"


def test_a_listener_that_fails_at_the_end_is_noted_too():
    def fails(event):
        if event.name == "turn_ended":
            raise ValueError

    turn = Interpreter(Script(text_reply("x")), jit=False, on_event=fails).run(Context(), "?")
    assert turn.notes == ("on_event failed at turn_ended: ValueError",)


# As a stream


@both
def test_a_turn_can_be_read_as_it_happens(backend):
    async def main():
        model = Script(call_reply(("a", "berth", {"quay": "B"})), text_reply("Berth 4."))
        interpreter = Interpreter(model, [berth], jit=False)
        return [event async for event in interpreter.astream(Context(), "Which?")]

    events = anyio.run(main, backend=backend)
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].turn.answer == "Berth 4."
    assert names(events)[:2] == ["turn_started", "prompt_built"]


async def calls_for_ever(prompt):
    await anyio.lowlevel.checkpoint()
    return call_reply((f"c{len(prompt.messages)}", "berth", {"quay": "B"}))


@both
@pytest.mark.parametrize("after", range(1, 12))
def test_closing_the_stream_cancels_the_turn_and_leaves_a_valid_history(backend, after):
    async def main():
        context, received = Context(), []
        limits = TurnLimits(steps=10**6)
        interpreter = Interpreter(
            Script(calls_for_ever), [berth], jit=False, limits=limits, on_event=received.append
        )
        events = interpreter.astream(context, "Which?")
        for _ in range(after):
            await anext(events)
        await events.aclose()
        return context, received

    context, received = anyio.run(main, backend=backend)
    assert received[-1].turn.stopped == "cancelled"
    assert validate([*context.history, {"role": "user", "content": "?"}], "anthropic") == []


@both
def test_a_reader_that_is_cancelled_cancels_the_turn(backend):
    async def main():
        context, received = Context(), []

        async def never(prompt):
            reading.set()
            await anyio.sleep_forever()

        reading = anyio.Event()
        interpreter = Interpreter(Script(never), jit=False, on_event=received.append)

        async def read():
            async for _ in interpreter.astream(context, "Which?"):
                pass

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await reading.wait()
            group.cancel_scope.cancel()
        return context.history, received[-1].turn.stopped

    history, stopped = anyio.run(main, backend=backend)
    assert (history, stopped) == ([{"role": "user", "content": "Which?"}], "cancelled")


@both
def test_a_reader_may_wait_for_each_event_in_a_scope_of_its_own(backend):
    async def main():
        model = Script(call_reply(("a", "berth", {"quay": "B"})), text_reply("Berth 4."))
        events = Interpreter(model, [berth], jit=False).astream(Context(), "Which?")
        received = []
        while True:
            with anyio.fail_after(60):
                try:
                    received.append(await anext(events))
                except StopAsyncIteration:
                    return received

    assert anyio.run(main, backend=backend)[-1].turn.stopped == "answer"


@both
def test_the_stream_raises_what_the_turn_raises(backend):
    received = []

    async def read(model, context):
        events = Interpreter(model, jit=False, on_event=received.append).astream(context, "?")
        return [event async for event in events]

    with pytest.raises(ZeroDivisionError):
        anyio.run(read, Script(lambda prompt: 1 / 0), Context(), backend=backend)
    assert received[-1].turn.stopped == "failed"
    with pytest.raises(InvalidArgumentError, match="its format 'plain'"):
        anyio.run(read, Script(text_reply("x")), Context(format="plain"), backend=backend)


def test_what_the_model_may_ask_for_is_kept_from_turn_to_turn():
    context = Context()
    interpreter = Interpreter(ScriptedModel(["x", "y"]))
    interpreter.run(context, "one")
    jit = context.jit
    interpreter.run(context, "two")
    assert jit is not None
    assert context.jit is jit
