"""From a script to a transcript: run every step, check its outcome, write everything down."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from record_example.steps import Call, Say, Step, Together, User, prose
from record_example.transcript import Transcript
from record_example.workshop import Outcome, Workshop, WorkshopError, leaks

__all__ = ["RecordingError", "record"]


class RecordingError(Exception):
    """A step whose outcome is not the one that the script continues from."""


def record(
    script: Sequence[Step], workshop: Workshop, *, progress: Callable[[str], None] = lambda _: None
) -> str:
    """Return the transcript of the session, as JSONL. Raises RecordingError naming the step."""
    transcript = Transcript()
    captured: dict[str, str] = {}
    for number, step in enumerate(script, 1):
        name = f"step {number} of {len(script)}, {_title(step)}"
        progress(name)
        try:
            _take(step, workshop, transcript, captured)
        except (RecordingError, WorkshopError, LookupError, OSError) as error:
            raise RecordingError(f"{name}: {error}") from error
    text = transcript.finished()
    for name in leaks():
        if name in text:
            place = text.index(name)
            context = text[max(place - 60, 0) : place + 60]
            raise RecordingError(
                f"{name!r}, a name of this machine, is in the recording: {context!r}"
            )
    return text


def _take(step: Step, workshop: Workshop, transcript: Transcript, captured: dict[str, str]) -> None:
    match step:
        case User():
            transcript.user(prose(step.text), step.pause)
        case Say():
            transcript.say(_filled(prose(step.text), captured))
        case Together():
            _call(step.calls, workshop, transcript, captured)
        case Call():
            _call((step,), workshop, transcript, captured)


def _call(
    calls: Sequence[Call], workshop: Workshop, transcript: Transcript, captured: dict[str, str]
) -> None:
    inputs = [workshop.input_of(call) for call in calls]
    filled = [
        (name, {key: _filled(value, captured) for key, value in values.items()})
        for name, values in inputs
    ]
    ids = transcript.calls(filled)
    for call, call_id, (name, values) in zip(calls, ids, filled, strict=True):
        outcome = workshop.run(_with_input(call, values), transcript.clock)
        _check(call, outcome, captured)
        transcript.result(call_id, name, values, outcome)


def _with_input(call: Call, values: dict[str, object]) -> Call:
    """Return the call with captured values in its texts; only commands and contents hold any."""
    import dataclasses

    texts = {key: values[key] for key in ("command", "content") if key in values}
    return dataclasses.replace(call, **texts) if texts else call


def _check(call: Call, outcome: Outcome, captured: dict[str, str]) -> None:
    if outcome.is_error != call.fails:
        wanted = "fail" if call.fails else "succeed"
        raise RecordingError(f"it should {wanted}, and it answered:\n{outcome.text[-1500:]}")
    if call.expect and not re.search(call.expect, outcome.text):
        raise RecordingError(f"no {call.expect!r} in its answer:\n{outcome.text[-1500:]}")
    for name, pattern in call.capture.items():
        found = re.search(pattern, outcome.text)
        if not found:
            raise RecordingError(f"nothing to capture as {name!r} in:\n{outcome.text[-1500:]}")
        captured[name] = found[1]


def _filled(value: object, captured: dict[str, str]) -> object:
    """Return a text with `{name}` replaced for the names captured so far; other braces stay."""
    if isinstance(value, str):
        for name, text in captured.items():
            value = value.replace(f"{{{name}}}", text)
    return value


def _title(step: Step) -> str:
    match step:
        case User() | Say():
            return f"{type(step).__name__}: {' '.join(step.text.split())[:60]}"
        case Together():
            return " + ".join(map(_title, step.calls))
        case _:
            about = getattr(step, "description", "") or getattr(step, "path", "")
            return f"{type(step).__name__}: {about or getattr(step, 'pattern', '')}"
