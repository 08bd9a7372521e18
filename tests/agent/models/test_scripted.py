"""ScriptedModel: it replies as scripted, in each provider's shape, the same in every run."""

import anyio
import pytest

from rehydrate import Context, validate
from rehydrate._native import result_entries, user_message
from rehydrate.agent import Model, Reply
from rehydrate.errors import InvalidArgumentError, RateLimitError, RequestRefusedError
from rehydrate.prompt import PROVIDERS
from rehydrate.testing import ScriptedModel, call

LONG_RULES = "Keep the harbour's rules. " * 2_000


def ask(model, prompt, **options):
    async def main():
        return await model.reply(prompt, **options)

    return anyio.run(main)


def turn(context, model):
    """Ask, run the calls, ask again: the smallest loop."""
    prompt = context.prompt()
    while True:
        reply = ask(model, prompt)
        results = [each.result(f"{each.name}: done") for each in reply.calls]
        context.add(*reply.entries, *result_entries(results))
        if not reply.calls:
            return reply
        prompt = context.prompt()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_it_says_is_what_the_provider_takes_back(provider):
    context = Context(provider=provider, system="Be brief.")
    context.prompt("Which berth is free?")
    script = [
        ["I look.", call("berths"), call("tides", day="today")],
        call("book", n=4),
        "Berth 4.",
    ]
    model = ScriptedModel(script, provider=provider)
    assert isinstance(model, Model)
    assert turn(context, model).text == "Berth 4."
    assert validate(context.history, format=provider) == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_calls_keep_their_order_names_and_arguments(provider):
    model = ScriptedModel([[call("a", n=1), "text", call("b", name="é")]], provider=provider)
    reply = ask(model, Context(provider=provider).prompt("Go."))
    assert [(each.name, each.arguments()) for each in reply.calls] == [
        ("a", {"n": 1}),
        ("b", {"name": "é"}),
    ]
    assert (reply.stop, reply.text) == ("calls", "text")
    assert len({each.id for each in reply.calls}) == 2


@pytest.mark.parametrize("provider", PROVIDERS)
def test_ids_are_the_same_in_every_run_and_never_twice_in_a_conversation(provider):
    def run():
        context = Context(provider=provider)
        replies = []
        for query in ("Go.", "Go."):
            context.add(user_message(query, provider))
            # A new model for each turn: the ids must not come from its own counting.
            replies.append(turn(context, ScriptedModel([call("go"), "Gone."], provider=provider)))
        return context.history, replies

    assert run() == run()
    history, _ = run()
    assert validate(history, format=provider) == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_usage_is_what_a_provider_with_a_cache_would_bill(provider):
    context = Context(provider=provider, system=LONG_RULES)
    model = ScriptedModel(["One.", "Two."], provider=provider)
    first_prompt = context.prompt("First?")
    first = ask(model, first_prompt)
    context.add(*first.entries)
    second_prompt = context.prompt("Second?")
    second = ask(model, second_prompt)
    assert (first.usage.input, second.usage.input) == (first_prompt.tokens, second_prompt.tokens)
    assert first.usage.read == 0
    assert second.usage.read > 8_000
    assert second.usage.output > 0


def test_text_is_streamed_in_pieces_that_make_it_whole():
    pieces = []
    text = "  Berth 4\nis free  until noon. "
    model = ScriptedModel([text])
    reply = ask(model, Context().prompt("?"), on_text=pieces.append)
    assert len(pieces) > 3
    assert "".join(pieces) == reply.text == text


def test_a_function_answers_every_prompt_and_may_be_async():
    async def respond(prompt):
        await anyio.sleep(0)
        return f"{len(prompt.messages)} messages"

    model = ScriptedModel(respond)
    context = Context()
    replies = [ask(model, context.prompt(query)).text for query in ("One.", "Two.")]
    assert replies == ["1 messages", "2 messages"]
    assert [len(prompt.messages) for prompt in model.prompts] == [1, 2]


def test_an_exception_of_the_script_is_raised_and_the_script_goes_on():
    model = ScriptedModel([RateLimitError("scripted", 429, "slow down", 2.0), TimeoutError, "Yes."])
    prompt = Context().prompt("?")
    with pytest.raises(RateLimitError, match="slow down"):
        ask(model, prompt)
    with pytest.raises(TimeoutError):
        ask(model, prompt)
    assert ask(model, prompt).text == "Yes."


def test_a_reply_is_given_as_it_is_and_billed_where_it_names_no_usage():
    refusal = Reply((), "No.", stop="refusal")
    prompt = Context().prompt("Tell me a secret.")
    reply = ask(ScriptedModel([refusal]), prompt)
    assert (reply.text, reply.stop, reply.usage.input) == ("No.", "refusal", prompt.tokens)


def test_a_script_that_is_over_says_so_and_what_helps():
    model = ScriptedModel(["One."], name="harbour")
    prompt = Context().prompt("?")
    ask(model, prompt)
    for _ in range(2):
        with pytest.raises(
            RequestRefusedError, match=r"harbour .* over after 1 reply; give it one"
        ):
            ask(model, prompt)


def test_mistakes_in_the_program_are_named():
    with pytest.raises(InvalidArgumentError, match="pass a list of replies"):
        ScriptedModel("One.")
    with pytest.raises(InvalidArgumentError, match="choose one of 'anthropic'"):
        ScriptedModel([], provider="cohere")
    with pytest.raises(InvalidArgumentError, match=r"compiled for anthropic .* openai_chat"):
        ask(ScriptedModel(["One."], provider="openai_chat"), Context().prompt("?"))
    with pytest.raises(InvalidArgumentError, match="reply of type int"):
        ask(ScriptedModel([["text", 3]]), Context().prompt("?"))


def test_it_runs_on_trio_too_and_can_be_cancelled_there():
    async def hang(prompt):
        await anyio.sleep_forever()

    async def main():
        with anyio.move_on_after(0.01) as scope:
            await ScriptedModel(hang).reply(Context().prompt("?"))
        return scope.cancelled_caught

    assert anyio.run(main, backend="trio")
