"""docs/agent.md: its tables are complete, and it quotes the texts that the model reads."""

import re
from pathlib import Path
from typing import get_args

from rehydrate._text import NOTHING
from rehydrate.agent import Event, Stopped, TurnLimits
from rehydrate.agent.tool_calls import MAX_HANGING_CALLS, UNKNOWN_EFFECT

PAGE = (Path(__file__).parents[2] / "docs" / "agent.md").read_text(encoding="utf-8")


def test_every_event_and_every_end_is_in_a_table():
    rows = set(re.findall(r"^\| ([^|]*) \|", PAGE, re.MULTILINE))
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {each.name for each in Event.__subclasses__()} | set(get_args(Stopped)) <= named


def test_it_quotes_the_texts_that_the_model_reads():
    assert f'"{NOTHING}"' in PAGE
    assert UNKNOWN_EFFECT in PAGE
    assert f"{MAX_HANGING_CALLS} calls of one tool" in PAGE
    assert f"`TurnLimits.steps` times ({TurnLimits().steps})" in PAGE
