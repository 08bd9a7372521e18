"""A source, summary or turn that is left out is reported once."""

import time

import pytest

import rehydrate
from rehydrate import Budget, Context, Interpreter, _text
from rehydrate.agent import Retry
from rehydrate.context import BackgroundCompaction
from rehydrate.errors import (
    BudgetExceededError,
    ContextOverflowError,
    InvalidConversationError,
    ProviderUnavailableError,
    RateLimitError,
    RequestRefusedError,
    Violation,
)
from rehydrate.prompt import hydrate_source
from rehydrate.prompt.sources import function


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch):
    monkeypatch.setattr(_text, "_warned", set())


def said(caplog, logger):
    """Return what one logger said; a summary of another test may fail late, in its thread."""
    records = [each for each in caplog.records if each.name == logger]
    return [(each.levelname, each.getMessage()) for each in records]


def test_a_source_that_fails_is_named_once_and_without_its_text(caplog):
    def weather(request):
        raise OSError("password=hunter2")

    for _ in range(2):
        assert Context(weather).prompt("Rain?").ir.meta.degraded == ("weather: failed: OSError",)
    assert hydrate_source("Rain?", weather).sections == ()
    why = "source 'weather' was left out: failed: OSError"
    assert said(caplog, "rehydrate.prompt") == [("WARNING", why)]


def test_a_late_source_is_named_with_its_timeout(caplog):
    source = function("weather", lambda request: time.sleep(0.05), timeout=0.0)
    for _ in range(2):
        assert Context(source).prompt("Rain?").ir.sections == ()
    why = "source 'weather' was left out: late: no answer within 0 s"
    assert said(caplog, "rehydrate.prompt") == [("WARNING", why)]


def test_a_lookup_of_300_ms_is_in_the_prompt(caplog):
    def berths(request):
        time.sleep(0.3)
        return "Berth 4 is free."

    assert "Berth 4 is free." in str(Context(berths).prompt("Which berth?").request)
    assert said(caplog, "rehydrate.prompt") == []


def test_a_sources_own_timeout_holds_unless_the_context_has_one():
    def berths(request):
        time.sleep(0.01)
        return "Berth 4 is free."

    patient, hasty = (function("berths", berths, timeout=seconds) for seconds in (None, 0.0))
    for source, timeout, is_there in (
        (patient, "own", True),
        (hasty, "own", False),
        (patient, 0.0, False),
        (hasty, None, True),
    ):
        prompt = Context(source, timeout=timeout).prompt("Which berth?")
        assert ("Berth 4" in str(prompt.request)) is is_there


def test_a_summary_that_fails_is_named_once(caplog):
    def write(request):
        raise ConnectionError("token=hunter2")

    background = BackgroundCompaction(writer=write, keep_last=2)
    context = Context(budget=Budget(soft_tokens=2_000), background=background)
    for number in range(24):
        context.prompt(f"Question {number}: " + "which berth is free today? " * 12)
        context.add({"role": "assistant", "content": f"Berth {number}. " * 20})
    why = "summary: the writer failed (ConnectionError); the store takes its place"
    assert said(caplog, "rehydrate.context") == [("WARNING", why)]


NO_KEY = "nothing was sent: Could not resolve authentication method, hunter2"
KEY = "ANTHROPIC_API_KEY or the model's api_key"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (RequestRefusedError("anthropic", None, NO_KEY), f"there is no key; set {KEY}"),
        (RequestRefusedError("anthropic", 401, "hunter2"), f"refuses the key; check {KEY}"),
        (RequestRefusedError("anthropic", 403, "hunter2"), f"to do this; check {KEY}"),
        (RequestRefusedError("bedrock", 403, "hunter2"), "to do this; check AWS's credentials"),
        (RequestRefusedError("anthropic", 404, "hunter2"), "no model 'scripted', or base_url"),
        (RequestRefusedError("anthropic", 400, "hunter2"), "request; turn.error says why"),
        (RequestRefusedError("gemini", None, "nothing was sent: hunter2"), "says why"),
        (RateLimitError("anthropic", 429, "hunter2"), "try again later, or raise Retry"),
        (ContextOverflowError("anthropic", 400, "hunter2"), "lower the budget of the Context"),
        (ProviderUnavailableError("anthropic", 529, "hunter2"), "try again later, or check"),
        (InvalidConversationError([Violation(0, "empty_text", "hunter2")]), "(empty_text)"),
        (BudgetExceededError("the job", 9, 8, "hunter2"), "the job needs more tokens than budget"),
    ],
)
def test_a_turn_that_fails_is_named_with_its_remedy_and_without_the_providers_text(
    caplog, error, why
):
    def fails(prompt):
        raise error

    agent = Interpreter(rehydrate.testing.ScriptedModel(fails), retry=Retry(attempts=1))
    for _ in range(2):
        assert agent.run(Context(), "Which berth?").error is error
    ((level, line),) = said(caplog, "rehydrate.agent")
    assert (level, line[:15]) == ("WARNING", "a turn failed: ")
    assert why in line and "hunter2" not in line
    status = getattr(error, "status", None)
    assert status is None or f"{error.provider} answered {status}: " in line
