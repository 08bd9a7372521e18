"""Long chats in seven languages: facts stated once, asked for much later."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from benches.python.shapes.log import Dice, Log

LANGUAGES = ("de", "es", "ja", "ar", "hi", "zh", "he")
UNSPACED = ("ja", "zh")
SESSIONS = 2 * len(LANGUAGES)
TABLE = Path(__file__).with_name("chats.tsv")
TOLD = 0.85
"""Facts are stated within this share of a chat, most of them in its first half."""


class Fact(NamedTuple):
    """A fact that the user may state, and the like of somebody else."""

    key: str
    said: str
    asked: str
    values: str
    other: str


@cache
def language(name: str) -> tuple[dict[str, str], tuple[Fact, ...], str]:
    """Return the words of a language, its facts, and how a date is changed in it."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t")[1:] for line in lines if line.startswith(f"{name}\t")]
    words = {row[0][1:]: row[1] for row in rows if row[0].startswith("_")}
    facts = tuple(Fact(*row) for row in rows if len(row) > 2)
    return words, facts, next(row[1] for row in rows if row[0] == "change")


def make(number: int) -> Log:
    """Make one chat."""
    name = LANGUAGES[number % len(LANGUAGES)]
    words, facts, change = language(name)
    dice = Dice(f"chat {name} {number}", words)
    log = Log(f"chat {name} {number}", "plain", dice)
    turns = dice.randrange(40, 150)
    reported: dict[int, list[str]] = {}
    answers: dict[str, str] = {}

    def tell(text: str, first: float, last: float) -> None:
        reported.setdefault(int(turns * dice.uniform(first, last)), []).append(text)

    for fact in facts:
        mine, theirs, newer = _values(fact, dice)
        first = dice.triangular(0.01, TOLD, 0.15)
        tell(dice.one(fact.said).replace("{v}", mine), first, first)
        tell(fact.other.replace("{v}", theirs), 0.01, 0.98)
        if fact.key == "party" and number < len(LANGUAGES):
            tell(change.replace("{v}", newer), min(first + 0.03, 0.9), 0.97)
            mine = newer
        answers[dice.one(fact.asked)] = mine
    for turn in range(turns):
        facts_now = reported.get(turn, [])
        around = _chatter(dice, "chat", 0.6 if facts_now else 1.4)
        if facts_now and dice.chance(0.4):
            around = []
        at = dice.randrange(len(around) + 1)
        gap = "" if name in UNSPACED else " "
        log.user(gap.join([*around[:at], *facts_now, *around[at:]]))
        log.assistant(gap.join(_chatter(dice, "reply", 2.2)))
    for question, value in answers.items():
        log.ask(question, value)
    return log


def _values(fact: Fact, dice: Dice) -> list[str]:
    """Return three values: the user's, somebody else's, and one that replaces the first."""
    if "#" in fact.values:
        return [dice.code(fact.values) for _ in range(3)]
    return dice.sample(fact.values.split("|"), 3)


def _chatter(dice: Dice, kind: str, median: float) -> list[str]:
    """Return some sentences; now and then very many."""
    made = (dice.say(kind) for _ in range(dice.size(median, 0.7, 25)))
    return [text[0].upper() + text[1:] for text in made]
