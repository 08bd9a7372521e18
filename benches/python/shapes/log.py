"""The log of a generated session: turns, calls, results, and the values that are used later."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benches.python.inputs import Message
from rehydrate._native import text_of, user_text
from rehydrate.retention import CODING_CUTS, Conversation, Cut, Question, steps

Call = tuple[str, Mapping[str, Any], str]
"""A tool, its input, and its result."""

CUTS = CODING_CUTS[1:]
MIN_NEEDED = 3
"""Minimum values used after a cut: a share of fewer means nothing."""
TABLE = Path(__file__).with_name("words.tsv")
_SLOT = re.compile(r"\{(\w+)\}")
_SIGNS = {
    "#": "0123456789",
    "@": "ABCDEFGHJKLMNPRSTUVWXYZ",
    "*": "abcdefghkmnpqrstuvwxyz23456789",
}


@cache
def words_of(shape: str) -> dict[str, str]:
    """Return the alternatives of a shape by name, with ``|`` between them."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line.startswith(f"{shape}\t")]
    return {name: alternatives for _, name, alternatives in rows}


class Dice(random.Random):
    """Draws of words, codes and sizes; the same for the same seed."""

    def __new__(cls, seed: str, _words: Mapping[str, str]) -> Dice:
        """`random.Random` takes no words."""
        return super().__new__(cls, seed)

    def __init__(self, seed: str, words: Mapping[str, str]) -> None:
        super().__init__(seed)
        self.words = words

    def one(self, alternatives: str) -> str:
        """Return one of the alternatives, which are separated by ``|``."""
        return self.choice(alternatives.split("|"))

    def say(self, name: str, /, **given: object) -> str:
        """Return one of the texts of this name; its slots take `given`, or texts of their names."""

        def fill(slot: re.Match[str]) -> str:
            return str(given[slot[1]]) if slot[1] in given else self.say(slot[1], **given)

        return _SLOT.sub(fill, self.one(self.words[name]))

    def code(self, form: str) -> str:
        """Return an id: ``#`` is a digit, ``@`` a capital, ``*`` a small letter or a digit."""
        return "".join(self.choice(_SIGNS[sign]) if sign in _SIGNS else sign for sign in form)

    def size(self, median: float, spread: float = 1.0, most: int = 2_000) -> int:
        """Return a long-tailed count: half of them under the median, a few many times it."""
        return max(1, min(most, round(median * self.lognormvariate(0, spread))))

    def chance(self, share: float) -> bool:
        """Return True in this share of the draws."""
        return self.random() < share


class Asked(NamedTuple):
    """A question, and the values that its answer needs to the letter."""

    text: str
    values: tuple[str, ...]


class Log:
    """A session in Anthropic's or OpenAI's format or plain, and the truth of what it uses."""

    def __init__(self, name: str, kind: str, dice: Dice) -> None:
        self.name = name
        self.format = kind
        self.dice = dice
        self.messages: list[Message] = []
        self.uses: list[tuple[int, str]] = []
        """The index of a message that uses a value which it cannot make up, and the value."""
        self.cut_at: list[int] = []
        """Indices at which the session is cut besides the usual ones."""
        self.asked: list[Asked] = []
        self.asked_at = 0
        """Index of the questions."""
        self._ids: set[str] = set()

    def user(self, text: str) -> None:
        """Add a user turn."""
        self.messages.append({"role": "user", "content": text})

    def assistant(self, text: str) -> None:
        """Add text of the agent without a call."""
        self.messages.append({"role": "assistant", "content": text})

    def call(self, call: Call, *uses: str, said: str = "") -> None:
        """Add a tool call with its result, and the values in it that the agent cannot make up."""
        self.uses += [(len(self.messages), value) for value in uses]
        tool, given, result = call
        made = self._id()
        if self.format == "anthropic":
            content: list[Any] = [{"type": "text", "text": said}] if said else []
            content.append({"type": "tool_use", "id": made, "name": tool, "input": given})
            answer = {"type": "tool_result", "tool_use_id": made, "content": result}
            self.messages.append({"role": "assistant", "content": content})
            self.messages.append({"role": "user", "content": [answer]})
            return
        function = {"name": tool, "arguments": json.dumps(given, ensure_ascii=False)}
        calls = [{"id": made, "type": "function", "function": function}]
        self.messages.append({"role": "assistant", "content": said or None, "tool_calls": calls})
        self.messages.append({"role": "tool", "tool_call_id": made, "content": result})

    def ask(self, text: str, *values: str) -> None:
        """Add a question that can be asked here, and the values of its answer; all at one index."""
        self.asked_at = len(self.messages)
        self.asked.append(Asked(text, values))

    def conversation(self) -> Conversation:
        """Return it up to its questions, as in LoCoMo; evidence is the last message of each
        value."""
        messages = self.messages[: self.asked_at]
        texts = [text_of(message) for message in messages]
        questions = []
        for text, values in self.asked:
            last = {max(i for i, t in enumerate(texts) if value in t) for value in values}
            questions.append(Question(text, tuple(sorted(last)), "; ".join(values)))
        return Conversation(self.name, messages, self.format, tuple(questions))

    def cuts(self) -> list[Cut]:
        """Return the session up to several points, each with the values that are used after it.

        A value counts that occurs before the point, but not in the last user turn: everybody keeps
        that.
        """
        groups = steps(self.messages)
        at = {groups[int(len(groups) * share + 1e-9)].start for share in CUTS}
        found = []
        for place in sorted(at | set(self.cut_at)):
            before, ahead = self.messages[:place], self.messages[place:]
            used = {value for index, value in self.uses if index >= place}
            needed = _standing(used, before)
            if len(needed) >= MIN_NEEDED:
                name = f"{self.name} at {place}"
                found.append(Cut(name, before, needed, self.format, self.name, ahead))
        return found

    def questions(self) -> list[tuple[Cut, str]]:
        """Return the session with each question as its last turn, as a cut; and the question."""
        found = []
        for number, (text, values) in enumerate(self.asked):
            messages = [*self.messages[: self.asked_at], {"role": "user", "content": text}]
            name = f"{self.name} question {number}"
            found.append((Cut(name, messages, frozenset(values), self.format, self.name), text))
        return found

    def _id(self) -> str:
        form = "toolu_01*****************" if self.format == "anthropic" else "call_*************"
        while (made := self.dice.code(form)) in self._ids:
            pass
        self._ids.add(made)
        return made


def _standing(values: set[str], messages: Sequence[Message]) -> frozenset[str]:
    """Return the values that occur in the messages, but not in the last user turn."""
    last_turn = next(filter(None, map(user_text, reversed(messages))), "")
    text = "\n".join(map(text_of, messages))
    return frozenset(value for value in values if value in text and value not in last_turn)
