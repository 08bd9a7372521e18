"""Mutated conversations of every format through every door.

    python -m tests.stress.mutated --count 100000 --seed 1

What no door may do: end in an error that is not of `rehydrate.errors`, end in an InternalError,
make something invalid of what was valid, or take more than two seconds of the processor. Each kind
of fault is printed once, with the number of its case: ``--only`` runs it again.
"""

from __future__ import annotations

import argparse
import copy
import json
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import rehydrate
from rehydrate import Budget, Context, RehydrateError, formats
from rehydrate.errors import InternalError, InvalidMessageError
from rehydrate.messages import PROVIDER_OF, PROVIDERS
from rehydrate.prompt import ContextRequest, History, PromptIR, Provenance, Section, compile
from tests.stress.hosts import Host, hosts, through
from tests.stress.mutations import corpus, mutated, spoil

LONGEST_SECONDS = 2.0
_HANG_SECONDS = 10
_OF_EACH = 20

Door = Callable[["Case"], Any]


class FaultError(Exception):
    """A mistake of a door."""


class Case:
    """One conversation, and what is drawn for it."""

    def __init__(self, random: Random, format: str, entries: list[Any]) -> None:
        self.random = random
        self.entries = entries
        self.format = format if random.random() < 0.7 else "auto"
        self.query = random.choice((None, "", "src/app.py fails", "half \ud800"))
        self.is_valid = False
        """Whether its format reads it, and finds no fault."""
        self.found = ""
        """The format, once it was read."""


def _read(case: Case) -> None:
    case.found = formats.parse(case.entries, case.format).format
    case.is_valid = not rehydrate.validate(case.entries, case.format)


def _count(case: Case) -> None:
    rehydrate.count_tokens(case.entries, format=case.format)
    rehydrate.estimate_tokens(case.entries, format=case.format)


def _compact(case: Case) -> None:
    random = case.random
    compaction = rehydrate.compact_context(
        case.entries,
        case.query,
        random.choice((0.1, 0.4, 0.8)),
        format=case.format,
        granularity=random.choice(("message", "excerpt")),
        outline=random.choice((False, True)),
        thinking=random.choice(("auto", "keep", "strip")),
        scoring=random.choice(("balanced", "balanced", "chitta")),
        provider=random.choice((None, *PROVIDERS)) if case.random.random() < 0.3 else None,
    )
    stats = compaction.stats
    if stats.after_tokens > stats.before_tokens and stats.changed:
        raise FaultError(f"{stats.before_tokens} tokens became {stats.after_tokens}")
    str(compaction.explain())
    if case.is_valid:
        _must_be_valid(compaction.messages, stats.format)
    json.dumps(compaction.explain().to_dict())


def _compile(case: Case) -> None:
    random = case.random
    provider = random.choice(PROVIDERS)
    anchors = (None, 0, 1, 2, len(case.entries) // 2, len(case.entries))
    sections = tuple(
        Section(
            f"note{number}",
            "Something to know. " * random.choice((1, 90)),
            Provenance("semantic", trust=0.5),
            anchor=random.choice(anchors),
        )
        for number in range(random.choice((0, 1, 3)))
    )
    history = History(tuple(case.entries), case.found or "plain")
    budget = Budget(soft_tokens=random.choice((200, 2_000, 50_000)))
    request = ContextRequest(case.query or "Go on.", budget=budget)
    prompt = compile(
        PromptIR(request, sections, (), history),
        provider,
        granularity=random.choice(("message", "excerpt")),
        outline=random.choice((False, True)),
    )
    if case.is_valid:
        _must_be_valid(prompt.messages, provider)
    PromptIR.from_json(prompt.ir.to_json())


def _hydrate(case: Case) -> None:
    ir = rehydrate.hydrate(
        case.query or "", messages=case.entries, format=case.format, timeout=None
    )
    str(ir.explain())


def _add(case: Case) -> None:
    """Each user turn of the conversation is a prompt, and the context compacts."""
    provider = PROVIDER_OF.get(case.found, case.found)
    provider = provider if provider in PROVIDERS else case.random.choice(PROVIDERS)
    soft = case.random.choice((300, 3_000, 50_000))
    context = Context(provider=provider, format=case.found, budget=Budget(soft_tokens=soft))
    for number, entry in enumerate(case.entries):
        context.add(entry)
        if number % 4 == 3 and (not case.is_valid or _is_settled(context.history, case.found)):
            context.prompt()
    prompt = context.prompt("And now?" if case.random.random() < 0.5 else None)
    if case.is_valid and not rehydrate.validate(context.history, case.found):  # with the query
        _must_be_valid(prompt.messages, provider, is_open=True)
    str(context.store)


def _is_settled(entries: list[Any], format: str) -> bool:
    """Whether a conversation may be sent as it is: no call waits for its result."""
    messages = formats.parse(entries, format).messages
    made = {call for each in messages for call in each.calls}
    answered = {answer for each in messages for answer in each.answers}
    return made <= answered and not rehydrate.validate(entries, format)


def _lint(case: Case) -> None:
    for finding in rehydrate.lint(case.entries, format=case.format):
        str(finding)


def _convert(case: Case) -> None:
    if case.found == "langchain":
        formats.langchain_to_openai(case.entries)
    elif case.found == "openai_chat":
        made = formats.openai_to_langchain(case.entries)
        if case.is_valid:
            _must_be_valid(made, "langchain")


DOORS: dict[str, Door] = {
    "read": _read,
    "count": _count,
    "compact": _compact,
    "compile": _compile,
    "hydrate": _hydrate,
    "add": _add,
    "lint": _lint,
    "convert": _convert,
}


def _must_be_valid(messages: Any, format: str, *, is_open: bool = False) -> None:
    found = rehydrate.validate(messages, format)
    if is_open:  # what the conversation has not answered at that point
        found = [each for each in found if "unanswered" not in each.rule]
    if found:
        raise FaultError(f"valid became invalid: {found[0].rule}")


class Run:
    """The cases of a seed, and the kinds of faults that were found."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.faults: dict[tuple[str, str], int] = {}
        self.counts: Counter[str] = Counter()
        self.slow: list[tuple[float, str, int]] = []
        self.conversations = corpus(seed, _OF_EACH)
        self.hosts = hosts()
        self.names = [*self.conversations, *self.hosts]
        self.others = [each for one in self.conversations.values() for few in one for each in few]

    def case(self, number: int, *, is_loud: bool = False) -> None:
        """Run one case through every door that it fits."""
        random = Random(f"{self.seed} {number}")
        name = random.choice(self.names)
        if name in self.hosts:
            self._host(name, self.hosts[name], random, number)
            return
        entries = random.choice(self.conversations[name])
        if random.random() < 0.95:
            entries = mutated(random, entries, self.others)
        else:
            entries = copy.deepcopy(entries)
        if is_loud:
            print(name, repr(entries)[:20_000])
        case = Case(random, name, entries)
        for door, run in DOORS.items():
            if door != "read" and not case.found and random.random() < 0.5:
                continue  # the doors refuse alike, which the first shows
            self._run(door, number, lambda run=run: run(case))

    def _host(self, name: str, host: Host, random: Random, number: int) -> None:
        values = [each for n in range(random.choice((1, 2, 6))) for each in host.turn(f"m{n}")]
        is_whole = random.random() < 0.05
        if not is_whole:
            values = mutated(random, values, self.others)
        try:
            messages = host.load(values)
            is_spoiled = not is_whole and random.random() < 0.5
            if is_spoiled:
                spoil(random, messages)
        except Exception:  # the framework's own refusal
            self.counts[f"{name} refused"] += 1
            return

        def run() -> None:
            try:
                before, sent = through(host, messages)
            except (AttributeError, TypeError, ValueError):
                if not is_spoiled:
                    raise
                # No message of the framework any more: the adapters pass such a list through.
                self.counts[f"{name} passed through"] += 1
                return
            if not rehydrate.validate(before, host.format):
                _must_be_valid(host.read(sent), host.format, is_open=True)

        self._run(name, number, run)

    def _run(self, door: str, number: int, run: Callable[[], Any]) -> None:
        self.counts[door] += 1
        began = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, _HANG_SECONDS, 1)  # again if it is swallowed
        try:
            run()
        except InternalError as error:
            self._note(door, number, error)
        except RehydrateError as error:
            self.counts[f"{door}: {type(error).__name__}"] += 1
            if isinstance(error, InvalidMessageError) and not error.remedy:
                self._note(door, number, error)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic isn't an Exception
            self._note(door, number, error)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        seconds = time.process_time() - began
        if seconds > LONGEST_SECONDS:
            self.slow.append((seconds, door, number))
            print(f"--only {number}  {door} took {seconds:.1f} s", flush=True)

    def _note(self, door: str, number: int, error: BaseException) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "/rehydrate/" in frame.filename]
        called = frames[frames.index(own[-1]) + 1 :] if own else frames
        if door in self.hosts and any("site-packages" in frame.filename for frame in called):
            self.counts[f"{door} refused"] += 1  # the framework cannot send it either
            return
        last = own[-1] if own else frames[-1]
        where = f"{last.filename.rpartition('/python/')[2]}:{last.lineno}"
        text = str(error) if isinstance(error, (FaultError, InternalError)) else ""
        kind = (door if text else "", f"{type(error).__name__} {where} {_without_numbers(text)}")
        self.counts["faults"] += 1
        if kind not in self.faults:
            way = " < ".join(f"{each.name}:{each.lineno}" for each in reversed(own[-5:]))
            self.faults[kind] = number
            what = f"{kind[1]}\n    {error}"[:600]
            print(f"--only {number}  {door}: {what}\n    {way}\n", flush=True)


def _without_numbers(text: str) -> str:
    return "".join("0" if each.isdigit() else each for each in text)[:160]


def _on_alarm(*_: object) -> None:
    raise FaultError("it hangs")


def run(count: int, seed: int, first: int = 0, of: Sequence[str] = ()) -> Run:
    """Run so many cases, from the first on; with ``of`` those of these formats and hosts."""
    signal.signal(signal.SIGVTALRM, _on_alarm)
    warnings.simplefilter("ignore")
    made = Run(seed)
    made.names = [each for each in made.names if each in (of or made.names)]
    for number in range(first, first + count):
        made.case(number)
    return made


def _lines(made: Run) -> Iterator[str]:
    yield f"{sum(made.counts[each] for each in (*DOORS, *made.hosts)):,} calls"
    yield f"{len(made.faults)} kinds of faults, {len(made.slow)} slow calls"


def main() -> int:
    """Run the command; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--of", action="append", default=[], help="only cases of this name")
    parser.add_argument("--counts", action="store_true", help="print how each door ended")
    given = parser.parse_args()
    if given.only is None:
        made = run(given.count, given.seed, given.first, given.of)
    else:
        made = run(0, given.seed, of=given.of)
        made.case(given.only, is_loud=True)
    for line in _lines(made):
        print(line)
    if given.counts:
        for name, number in sorted(made.counts.items()):
            print(f"{number:>8,}  {name}")
    return 1 if made.faults or made.slow else 0


if __name__ == "__main__":
    sys.exit(main())
