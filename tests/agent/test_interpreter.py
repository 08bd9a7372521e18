"""The loop of a turn: it answers, it stops at every limit, and the history is always valid."""

import json
from functools import partial
from random import Random

import anyio
import pytest

from rehydrate import Budget, Context, validate
from rehydrate._native import result_entries
from rehydrate.agent import Interpreter, Reply, Retry, TurnLimits
from rehydrate.cost import Price, Usage
from rehydrate.errors import (
    BudgetExceededError,
    ContextOverflowError,
    InvalidArgumentError,
    ProviderUnavailableError,
    RateLimitError,
    RequestRefusedError,
)
from rehydrate.prompt import HydrationSource, Provenance, Section
from tests.agent import clocks
from tests.agent.script import BACKENDS, PROVIDERS, Script, call_reply, results, text_reply

both = pytest.mark.parametrize("backend", BACKENDS)
everywhere = pytest.mark.parametrize("provider", PROVIDERS)
USER = {"role": "user", "content": "and then?"}


def berth(quay: str) -> str:
    """The free berth at a quay."""
    return f"berth 4 at {quay}"


async def depth(berth: int) -> dict[str, float]:
    """How deep it is."""
    await anyio.lowlevel.checkpoint()
    return {"metres": 7.5}


def agent(model, *tools, jit=False, **options):
    return Interpreter(model, tools, jit=jit, **options)


def run(backend, interpreter, context, *args, **options):
    async def main():
        return await interpreter.arun(context, *args, **options)

    return anyio.run(main, backend=backend)


def assert_valid(context):
    """The history is valid as it is, and with the next user message."""
    assert validate(context.history, context.provider) == []
    assert validate([*context.history, USER], context.provider) == []


@both
@everywhere
def test_a_turn_runs_the_tools_the_model_calls_and_ends_with_its_answer(backend, provider):
    model = Script(
        call_reply(("a", "berth", {"quay": "B"}), ("b", "depth", {"berth": 4}), provider=provider),
        text_reply("Berth 4, 7.5 m.", provider),
        provider=provider,
    )
    context = Context(provider=provider)
    turn = run(backend, agent(model, berth, depth), context, "Where may we lie?")
    assert (turn.answer, turn.stopped, turn.steps) == ("Berth 4, 7.5 m.", "answer", 2)
    assert turn.is_answered
    assert results(turn.history) == {"a": "berth 4 at B", "b": '{"metres":7.5}'}
    assert turn.history == tuple(context.history)
    assert turn.usage == Usage(uncached=200, output=20)
    assert turn.ir is context.ir
    assert turn.notes == ()
    assert_valid(context)
    offered = model.prompts[0].request["tools"]
    assert len(offered) == 2


@both
def test_the_next_turn_goes_on_from_where_the_last_one_ended(backend):
    model = Script(text_reply("Berth 4."), text_reply("Done."))
    context, interpreter = Context(), agent(model, berth)
    run(backend, interpreter, context, "Which?")
    turn = run(backend, interpreter, context, "Book it.")
    assert [entry["role"] for entry in turn.history] == ["user", "assistant"] * 2
    assert context.prefix.extends


def test_the_synchronous_form_does_the_same():
    turn = agent(Script(text_reply("Berth 4."))).run(Context(), "Which?")
    assert turn.answer == "Berth 4."


@both
def test_the_synchronous_form_is_refused_inside_a_running_loop(backend):
    async def main():
        agent(Script(text_reply("never"))).run(Context(), "Which?")

    with pytest.raises(InvalidArgumentError, match=r"await interpreter\.arun"):
        anyio.run(main, backend=backend)


def test_a_turn_goes_on_from_what_was_added_where_the_user_says_nothing_new():
    context = Context()
    context.add({"role": "user", "content": "Which?"})
    turn = agent(Script(text_reply("Berth 4."))).run(context)
    assert len(turn.history) == 2


@pytest.mark.parametrize("query", ["", " \n"])
def test_a_blank_query_says_nothing_new(query):
    context = Context()
    with pytest.raises(InvalidArgumentError, match="nothing to answer"):
        agent(Script(text_reply("x"))).run(context, query)
    assert context.history == []
    context.add({"role": "user", "content": "Which?"})
    assert len(agent(Script(text_reply("Berth 4."))).run(context, query).history) == 2


@everywhere
def test_a_query_is_refused_while_a_call_waits_for_its_result(provider):
    context = Context(provider=provider)
    context.add({"role": "user", "content": "Which?"})
    call = call_reply(("c1", "berth", {"quay": "A"}), provider=provider)
    context.add(*call.entries)
    before = context.history
    model = Script(text_reply("Berth 4.", provider), provider=provider)
    if provider != "openai_responses":  # which takes the results later too
        with pytest.raises(InvalidArgumentError, match="results that are still to come"):
            agent(model).run(context, "and then?")
        assert (context.history, model.prompts) == (before, [])
    context.add(*result_entries([call.calls[0].result("berth 4")]))
    agent(model).run(context, "and then?")
    assert_valid(context)


def test_a_model_that_calls_forever_meets_the_step_limit_with_a_valid_history():
    numbers = iter(range(100))
    model = Script(lambda prompt: call_reply((f"c{next(numbers)}", "berth", {"quay": "B"})))
    context = Context()
    turn = agent(model, berth, limits=TurnLimits(steps=7)).run(context, "Which?")
    assert (turn.stopped, turn.steps) == ("step_limit", 7)
    assert len(results(turn.history)) == 7
    assert_valid(context)


@both
def test_out_of_time_while_the_model_is_asked_adds_nothing_and_keeps_the_users_words(backend):
    async def never(prompt):
        clocks.jump(60)
        await anyio.sleep_forever()

    context = Context()
    interpreter = agent(Script(never), limits=TurnLimits(timeout=60))
    turn = clocks.run(partial(interpreter.arun, context, "Which?"), backend)
    assert (turn.stopped, turn.answer) == ("time_limit", "")
    assert turn.history == ({"role": "user", "content": "Which?"},)


@both
@everywhere
def test_out_of_time_while_tools_run_keeps_what_came_and_says_what_did_not(backend, provider):
    is_told = anyio.Event()

    def watch(event):
        if event.name == "tool_ended" and event.call_id == "a":
            is_told.set()

    async def hangs() -> str:
        """Hangs."""
        await is_told.wait()
        clocks.jump(60)
        await anyio.sleep_forever()

    model = Script(
        call_reply(("a", "berth", {"quay": "B"}), ("b", "hangs", {}), provider=provider),
        provider=provider,
    )
    context = Context(provider=provider)
    interpreter = agent(model, berth, hangs, limits=TurnLimits(timeout=60), on_event=watch)
    turn = clocks.run(partial(interpreter.arun, context, "Which?"), backend)
    assert turn.stopped == "time_limit"
    assert results(turn.history) == {
        "a": "berth 4 at B",
        "b": "hangs was cancelled; whether it took effect is unknown",
    }
    assert_valid(context)
    ended = [event for event in turn.events if event.name == "tool_ended"]
    assert {event.call_id: event.is_error for event in ended} == {"a": False, "b": True}


def test_a_money_limit_stops_before_the_model_is_asked_again():
    numbers = iter(range(100))
    model = Script(lambda prompt: call_reply((f"c{next(numbers)}", "berth", {"quay": "B"})))
    price = Price(input=1_000, output=0)  # a reply costs 0.1
    context = Context()
    limits = TurnLimits(dollars=0.25)
    turn = agent(model, berth, limits=limits, price=price).run(context, "Which?")
    assert (turn.stopped, turn.steps) == ("money_limit", 3)
    assert turn.dollars == pytest.approx(0.3)
    assert_valid(context)


def test_a_money_limit_without_a_known_price_is_refused_up_front():
    with pytest.raises(InvalidArgumentError, match=r"limits\.dollars is 1, and no price"):
        agent(Script(text_reply("x"), name="my-own"), limits=TurnLimits(dollars=1))


def test_a_turn_whose_models_price_is_not_known_says_so():
    assert agent(Script(text_reply("x"), name="my-own")).run(Context(), "?").dollars is None


def test_a_turn_over_the_token_budget_stops_and_says_why():
    context = Context(budget=Budget(50, 60))
    turn = agent(Script(text_reply("never"))).run(context, "many words " * 100)
    assert turn.stopped == "budget_exceeded"
    assert isinstance(turn.error, BudgetExceededError)
    assert len(turn.history) == 1


def test_the_budget_may_run_out_in_the_middle_of_the_turn():
    def large() -> str:
        """Large."""
        return " ".join(map(str, range(4_000)))

    context = Context(budget=Budget(5_000, 5_000), passes=())
    model = Script(call_reply(("a", "large", {})), text_reply("never"))
    turn = agent(model, large).run(context, "Which?")
    assert turn.stopped == "budget_exceeded"
    assert len(turn.history) == 3
    assert_valid(context)


# Errors of the provider


def test_a_refused_request_ends_the_turn_with_the_error_and_is_not_sent_again():
    model = Script(RequestRefusedError("anthropic", 400, "no"), text_reply("never"))
    context = Context()
    turn = agent(model).run(context, "Which?")
    assert turn.stopped == "failed"
    assert isinstance(turn.error, RequestRefusedError)
    assert len(model.prompts) == 1
    assert_valid(context)


class Clock:
    """Returns at once, and keeps the seconds it was asked to sleep."""

    def __init__(self):
        self.slept = []

    async def __call__(self, seconds):
        self.slept.append(seconds)


@both
def test_a_failure_that_may_pass_is_waited_for_longer_each_time(backend):
    down = ProviderUnavailableError("anthropic", 529, "overloaded")
    model, clock = Script(down, down, down, text_reply("Berth 4.")), Clock()
    retry = Retry(base_seconds=1)
    interpreter = agent(model, retry=retry, random=Random(1), sleep=clock)
    turn = run(backend, interpreter, Context(), "Which?")
    assert turn.answer == "Berth 4."
    assert turn.steps == 1
    random = Random(1)
    assert clock.slept == [retry.delay(number, None, random) for number in (1, 2, 3)]
    retries = [event for event in turn.events if event.name == "retrying"]
    assert [event.attempt for event in retries] == [2, 3, 4]


def test_the_provider_is_asked_again_when_it_wants_to_be():
    limited = RateLimitError("anthropic", 429, "slow down", retry_after_seconds=17)
    clock = Clock()
    turn = agent(Script(limited, text_reply("x")), sleep=clock).run(Context(), "?")
    assert (turn.stopped, clock.slept) == ("answer", [17])


def test_a_wait_beyond_the_total_is_a_failure_at_once():
    limited = RateLimitError("anthropic", 429, "tomorrow", retry_after_seconds=86_400)
    clock = Clock()
    turn = agent(Script(limited, text_reply("never")), sleep=clock).run(Context(), "?")
    assert (turn.stopped, turn.error, clock.slept) == ("failed", limited, [])


def test_attempts_have_an_end():
    down = ProviderUnavailableError("anthropic", None, "no route")
    model, clock = Script(down), Clock()
    turn = agent(model, retry=Retry(attempts=3), sleep=clock).run(Context(), "?")
    assert (turn.stopped, len(model.prompts), len(clock.slept)) == ("failed", 3, 2)


@both
def test_a_prompt_that_is_too_long_for_the_model_is_halved_and_sent_again(backend):
    window = 2_000

    def answer(prompt):
        if prompt.tokens > window:
            return ContextOverflowError("anthropic", 400, "prompt is too long")
        return text_reply("Berth 4.")

    context = Context(budget=Budget(10**6, 10**7))
    for number in range(60):
        context.add({"role": "user", "content": f"note {number}: " + "deep water " * 50})
        context.add({"role": "assistant", "content": f"noted {number}"})
    before = context.history
    turn = run(backend, agent(Script(answer)), context, "Which?")
    assert turn.answer == "Berth 4."
    compacted = [event for event in turn.events if event.name == "compacted"]
    assert [event.why for event in compacted] == ["overflow"] * len(compacted)
    assert 1 <= len(compacted) <= 3
    assert list(turn.history[: len(before)]) == before
    assert_valid(context)


def test_a_prompt_that_cannot_be_made_shorter_is_a_failure():
    overflow = ContextOverflowError("anthropic", 400, "prompt is too long")
    model = Script(overflow)
    turn = agent(model).run(Context(), "short")
    assert (turn.stopped, turn.error) == ("failed", overflow)
    assert len(model.prompts) <= 4


def test_a_prompt_that_only_its_fences_make_longer_is_not_sent_again():
    def note(request):
        where = Provenance("semantic", ("mem_1",), trust=0.5)
        return [Section("semantic:mem_1", "Berth 4 is deep.", where, priority="critical")]

    context = Context(HydrationSource("semantic", note, kind="semantic", timeout=None))
    model = Script(ContextOverflowError("anthropic", 400, "prompt is too long"))
    assert agent(model).run(context, "short").stopped == "failed"
    assert len(model.prompts) == 1


def test_an_unexpected_error_is_raised_and_the_history_is_valid():
    context = Context()
    events = []
    with pytest.raises(ZeroDivisionError):
        agent(Script(lambda prompt: 1 / 0), on_event=events.append).run(context, "Which?")
    assert_valid(context)
    assert events[-1].turn.stopped == "failed"
    assert agent(Script(text_reply("x"))).run(context, "Again.").answer == "x"


# Replies that are not as they should be


@everywhere
def test_call_ids_that_a_server_uses_again_and_again_are_distinguished(provider):
    model = Script(
        call_reply(("call_0", "berth", {"quay": "A"}), provider=provider),
        call_reply(
            *(("call_0", "berth", {"quay": "B"}), ("call_0", "berth", {"quay": "C"})),
            provider=provider,
        ),
        text_reply("Done.", provider),
        provider=provider,
    )
    context = Context(provider=provider)
    turn = agent(model, berth).run(context, "Which?")
    assert results(turn.history) == {
        "call_0": "berth 4 at A",
        "call_0_2": "berth 4 at B",
        "call_0_3": "berth 4 at C",
    }
    assert len(turn.notes) == 2
    assert_valid(context)


@everywhere
def test_ids_of_an_earlier_turn_are_used_too(provider):
    model = Script(
        call_reply(("call_0", "berth", {"quay": "A"}), provider=provider),
        text_reply("Done.", provider),
        call_reply(("call_0", "berth", {"quay": "B"}), provider=provider),
        text_reply("Done.", provider),
        provider=provider,
    )
    context, interpreter = Context(provider=provider), agent(model, berth)
    interpreter.run(context, "A?")
    turn = interpreter.run(context, "B?")
    assert results(turn.history) == {"call_0": "berth 4 at A", "call_0_2": "berth 4 at B"}
    assert_valid(context)


EMPTY = {
    "nothing": (),
    "no blocks": ({"role": "assistant", "content": []},),
    "an empty text": ({"role": "assistant", "content": [{"type": "text", "text": ""}]},),
    "no text": ({"role": "assistant", "content": ""},),
}


@pytest.mark.parametrize("entries", EMPTY.values(), ids=EMPTY)
def test_an_empty_reply_is_an_empty_answer_and_leaves_the_history_valid(entries):
    context = Context()
    turn = agent(Script(Reply(entries))).run(context, "Which?")
    assert (turn.answer, turn.stopped) == ("", "answer")
    assert turn.notes == ("step 1: the model said nothing",)
    assert_valid(context)


def test_thoughts_that_led_to_nothing_are_left_out():
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    model = Script(Reply((thought,), stop="length"), provider="openai_responses")
    context = Context(provider="openai_responses")
    turn = agent(model).run(context, "Which?")
    assert turn.stopped == "length"
    assert_valid(context)


def test_an_empty_text_next_to_calls_is_left_out():
    reply = call_reply(("a", "berth", {"quay": "B"}))
    (entry,) = reply.entries
    blocks = [{"type": "text", "text": ""}, *entry["content"]]
    model = Script(Reply(({**entry, "content": blocks},), calls=reply.calls), text_reply("x"))
    context = Context()
    assert agent(model, berth).run(context, "Which?").stopped == "answer"
    assert context.history[1] == entry
    assert_valid(context)


@everywhere
def test_a_reply_cut_off_in_the_midst_of_a_call_does_not_make_that_call(provider):
    made = []

    def book(berth: int, name: str = "") -> str:
        """Book a berth."""
        made.append(berth)
        return "booked"

    half = {"berth": 5} if provider == "anthropic" else '{"berth": 5, "na'
    model = Script(
        call_reply(
            ("a", "book", {"berth": 4}), ("b", "book", half), provider=provider, stop="length"
        ),
        text_reply("Done.", provider),
        provider=provider,
    )
    context = Context(provider=provider)
    turn = agent(model, book).run(context, "Book two.")
    assert made == [4]
    assert results(turn.history)["a"] == "booked"
    assert "cut off" in results(turn.history)["b"]
    assert turn.answer == "Done."
    assert_valid(context)
    if provider != "anthropic":
        text = json.dumps(turn.history)
        assert '\\"na' not in text


def test_a_reply_cut_off_at_its_limit_ends_the_turn_with_what_there_is():
    turn = agent(Script(text_reply("Berth", stop="length"))).run(Context(), "Which?")
    assert (turn.stopped, turn.answer, len(turn.history)) == ("length", "Berth", 2)


def test_a_refusal_ends_the_turn():
    turn = agent(Script(text_reply("No.", stop="refusal"))).run(Context(), "Which?")
    assert (turn.stopped, turn.answer) == ("refusal", "No.")


def test_calls_of_a_refused_reply_are_not_made():
    made = []
    model = Script(call_reply(("a", "book", {}), stop="refusal"))
    context = Context()
    turn = agent(model, booking_tool(made)).run(context, "Which?")
    assert (turn.stopped, made) == ("refusal", [])
    assert_valid(context)


def booking_tool(made):
    def book() -> None:
        """Book."""
        made.append(1)

    return book


def test_a_pause_goes_on_and_the_answer_is_all_that_was_said():
    model = Script(text_reply("Let me look. ", stop="pause"), text_reply("Berth 4."))
    turn = agent(model).run(Context(), "Which?")
    assert (turn.answer, turn.steps) == ("Let me look. Berth 4.", 2)


def test_a_model_that_pauses_forever_meets_the_step_limit():
    turn = agent(Script(text_reply("hm", stop="pause")), limits=TurnLimits(steps=3)).run(
        Context(), "?"
    )
    assert (turn.stopped, turn.steps) == ("step_limit", 3)


def test_a_reply_that_no_history_can_hold_fails_the_turn_and_stays_out_of_it():
    strange = Reply(({"role": "assistant", "content": []},), "text that is in no entry")
    context = Context()
    turn = agent(Script(strange)).run(context, "Which?")
    assert turn.stopped == "failed"
    assert_valid(context)


# Misuse


def test_a_context_of_another_providers_is_refused_before_anything_is_added():
    context = Context(provider="openai_chat")
    with pytest.raises(InvalidArgumentError, match=r"Context\(provider='anthropic'\)"):
        agent(Script(text_reply("x"))).run(context, "?")
    with pytest.raises(InvalidArgumentError, match="its format 'claude_code'"):
        agent(Script(text_reply("x"))).run(Context(format="claude_code"), "?")
    assert context.history == []


@both
def test_a_conversation_has_one_turn_at_a_time(backend):
    async def main():
        inside = anyio.Event()

        async def slow(prompt):
            inside.set()
            await anyio.sleep_forever()

        context, interpreter = Context(), agent(Script(slow))
        async with anyio.create_task_group() as group:
            group.start_soon(interpreter.arun, context, "one")
            await inside.wait()
            with pytest.raises(InvalidArgumentError, match="in the midst of a turn"):
                await interpreter.arun(context, "two")
            group.cancel_scope.cancel()
        return await agent(Script(text_reply("x"))).arun(context, "three")

    assert anyio.run(main, backend=backend).answer == "x"


@pytest.mark.parametrize("query", [3, ["Which?"], b"Which?"])
def test_a_query_is_a_string(query):
    with pytest.raises(InvalidArgumentError, match="pass a string"):
        agent(Script(text_reply("x"))).run(Context(), query)


def test_what_is_no_model_and_no_context_is_refused():
    with pytest.raises(InvalidArgumentError, match="model is of type str"):
        Interpreter("claude-opus-5")
    with pytest.raises(InvalidArgumentError, match=r"model\.provider is 'cohere'"):
        agent(Script(text_reply("x"), provider="cohere"))
    with pytest.raises(InvalidArgumentError, match="context is of type list"):
        agent(Script(text_reply("x"))).run([], "?")


@both
def test_one_interpreter_runs_many_conversations_at_once(backend):
    async def main():
        async def echo(prompt):
            await anyio.lowlevel.checkpoint()
            return text_reply(prompt.messages[-1]["content"].upper())

        interpreter, answers = agent(Script(echo), berth), {}

        async def one(number):
            answers[number] = (await interpreter.arun(Context(), f"number {number}")).answer

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(one, number)
        return answers

    answers = anyio.run(main, backend=backend)
    assert answers == {number: f"NUMBER {number}" for number in range(50)}
