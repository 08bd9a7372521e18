"""A few of the runs, and that the laws notice violations.

HYPOTHESIS_PROFILE=deep makes more runs, HYPOTHESIS_PROFILE=random makes others each time.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.agent.stress import runs
from tests.agent.stress.laws import LAWS
from tests.agent.stress.plan import plan_of
from tests.agent.stress.run import run_plan
from tests.sizes import seed_arguments, sized

RUNS = sized(8, 12)
CALM = {"fault_rate": 0.0, "cancel_rate": 0.0, "seconds": None, "timeout": None, "native": False}


def test_agents_keep_every_law_whatever_happens_to_them(monkeypatch, capfd):
    count = os.environ.get("STRESS_TRIALS", str(RUNS))
    arguments = ["runs", "--runs", count, "--jobs", "1", *seed_arguments(6)]
    # Here, as a process of its own would import the SDKs for as long as the runs take.
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as ended:
        runs.main()
    said = capfd.readouterr()
    assert (ended.value.code, said.out) == (0, "sound\n"), said.err


@pytest.fixture(scope="module", params=["anthropic", "openai_chat", "openai_responses"])
def one(request):
    """A run in which nothing goes wrong, long enough for every law to check something."""
    few = plan_of(1, 1)
    return run_plan(
        replace(
            few,
            wire=request.param,
            model="gpt-5" if request.param != "anthropic" else "claude-haiku-4-5",
            backend="asyncio",
            mode="run",
            streams=True,
            thinking=None,
            turns=4,
            soft_tokens=50_000,
            max_job_tokens=None,
            system_chars=4_000,
            sources=("memory",),
            steps=8,
            call_rate=0.6,
            writer=None,
            is_stored=False,
            **CALM,
        )
    )


def broken_laws(one):
    return {name for name, law in LAWS.items() if list(law(one))}


def test_a_sound_run_is_found_sound(one):
    assert broken_laws(one) == set()


def remove_an_entry(one):
    del one.context._thread.entries._entries[0]


def repeat_an_entry(one):
    entries = one.context._thread.entries._entries
    entries.insert(1, entries[0])


def change_an_entry(one):
    entry = one.context._thread.entries._entries[0]
    one.context._thread.entries._entries[0] = {**entry, "content": entry["content"] + "!"}


def send_a_message_twice(one):
    for sent in one.model.prompts:
        messages = [each for each in sent.prompt.messages if each.get("role") == "user"]
        sent.prompt.messages.append(max(messages, key=lambda each: len(str(each))))


def begin_anew(one):
    one.model.prompts[1].prompt.messages.insert(0, {"role": "user", "content": "First of all:"})


def bill_nothing_as_read(one):
    requests = one.provider.requests
    requests[:] = [replace(each, billed=each.billed._replace(read=0)) for each in requests]


def refuse_one(one):
    one.provider.requests[0] = replace(one.provider.requests[0], refusal="No.")


def end_otherwise(one):
    turn, cancelled = one.ended[0]
    one.ended[0] = (replace(turn, stopped="time_limit"), cancelled)


@pytest.mark.parametrize(
    ("tamper", "law"),
    [
        (remove_an_entry, "lost"),
        (repeat_an_entry, "lost"),
        (change_an_entry, "lost"),
        (send_a_message_twice, "repeated"),
        (begin_anew, "unreported"),
        (bill_nothing_as_read, "uncached"),
        (refuse_one, "refused"),
        (end_otherwise, "unfitting"),
    ],
)
def test_what_breaks_a_law_is_seen(one, tamper, law):
    kept = _state(one)
    try:
        tamper(one)
        assert law in broken_laws(one)
    finally:
        _restore(one, kept)


def _state(one):
    prompts = [list(sent.prompt.messages) for sent in one.model.prompts]
    return (
        list(one.context._thread.entries._entries),
        list(one.provider.requests),
        list(one.ended),
        prompts,
    )


def _restore(one, kept):
    one.context._thread.entries._entries[:], one.provider.requests[:], one.ended[:], prompts = kept
    for each, messages in zip(one.model.prompts, prompts, strict=True):
        each.prompt.messages[:] = messages
