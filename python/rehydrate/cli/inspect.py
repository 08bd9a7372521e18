"""`rehydrate inspect` and `lint`: the content, the cost and the waste of a prompt."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate._native import Document, Subject, is_request, lint_rules, system_and_tools
from rehydrate._text import plural
from rehydrate.cli.memory_store import MEMORY, opened_memory
from rehydrate.cli.options import (
    COLOR,
    FORMAT,
    Commands,
    group,
    json_option,
    naming_lines,
    option,
    output_of,
    text_of,
    tokens,
)
from rehydrate.cli.terminal import Column, Failure, Terminal, answer, pad, say, show, table, write
from rehydrate.errors import BudgetExceededError
from rehydrate.formats import detect_format
from rehydrate.messages import PROVIDERS

if TYPE_CHECKING:
    from rehydrate._native import Explanation
    from rehydrate.linting.linter import Finding
    from rehydrate.prompt.ir import CompiledPrompt, PromptIR
    from rehydrate.prompt.request import Budget


_LEFT_ALONE = ("query", "memory", "namespace", "knowledge", "soft", "hard", "provider", "model")
_OF_A_BODY = frozenset({"system", "instructions", "tools", "model", "toolConfig", "modelId"})
FOUND = 1
SHOWN_PLACES = 5
PLACE_CELLS = 24
NARROWEST = 16

ABOUT = dict(lint_rules())
_STYLES = {"error": "red", "warning": "yellow", "info": "blue"}
_GRAVE = ("info", "warning", "error", "never")
_HISTORY = re.compile(r"history\[(\d+)\]")


command = Commands()
_FILE = option("FILE", "the session or prompt; - reads stdin")
_HARD = option("--hard N", "hard budget in tokens (default: 180k)", tokens)


def _prompt_in(text: str) -> PromptIR | CompiledPrompt | None:
    """Return the PromptIR or compiled prompt that a text is, if it is one."""
    if text.lstrip()[:1] != "{" or '"rehydrate"' not in text:
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):  # lines, or no JSON: its reader reports it
        return None
    if not isinstance(document, dict) or not isinstance(document.get("rehydrate"), str):
        return None
    from rehydrate.prompt.ir import CompiledPrompt, PromptIR

    kind = CompiledPrompt if document["rehydrate"] == "compiled_prompt" else PromptIR
    return kind.from_dict(document)


def _budget(options: argparse.Namespace) -> Budget:
    from rehydrate.prompt.request import Budget

    standard = Budget()
    soft = options.soft or min(standard.soft_tokens, options.hard or standard.soft_tokens)
    return Budget(soft, options.hard or max(standard.hard_tokens, soft))


# inspect


@command(
    "show a prompt: what it holds, why, and what it costs",
    *(_FILE, option("-o --output PAGE", "one HTML page that needs nothing")),
    option("--json", "write the PromptIR as JSON"),
    group(
        "the turn, of a conversation",
        *(option("--query TEXT", "what it is about"), *MEMORY),
        option("--knowledge PATH", "a document or folder; repeatable", action="append"),
        option("--budget N", "soft budget (default: 50k)", tokens, dest="soft"),
        *(_HARD, option("--provider", "default: the conversation's own", PROVIDERS)),
        *(option("--model MODEL", "whose prompt it is"), FORMAT),
    ),
    epilog="""\
FILE is a conversation, as for `rehydrate compact`, the body of a request with its tools and system
prompt, or a PromptIR or compiled prompt as JSON (PromptIR.to_json(), or --json here).

Of a conversation the prompt of its next turn is made first: sources are asked, passes run. Nothing
is sent and nothing remembered. Without -o the prompt is printed as a table.

examples:
  rehydrate inspect session.jsonl -o report.html --query "the failing login test"
  rehydrate inspect request.json --budget 20k --json > prompt.json
""",
)
def _inspect(options: argparse.Namespace) -> None:
    page = output_of(options, options.file, *(options.knowledge or ()))
    name, text = text_of(options.file)
    units: Explanation | None = None
    prompt = _prompt_in(text)
    if prompt is None:
        prompt, units = _next_prompt(name, text, options)
    else:
        for field in _LEFT_ALONE:
            if getattr(options, field, None):
                flag = "budget" if field == "soft" else field
                raise Failure(f"--{flag} makes a prompt of a conversation; {options.file} is one")
    if options.json:
        write(_ir(prompt).to_json(indent=2) + "\n")
    if options.output:
        from rehydrate.page import inspector_page

        what = f"the prompt of {name}, {_ir(prompt).tokens:,} tokens"
        write(inspector_page(prompt, units=units, title=name), page, what=what)
    if not (options.json or options.output):
        broken = [" ".join(str(one).split()) for one in _ir(prompt).verify()]
        verdict = f"breaks {len(broken):,} laws:" if broken else "breaks no law"
        lines = [*str(prompt.explain()).splitlines(), "", verdict, *[f"  {one}" for one in broken]]
        show(lines, Terminal.of(sys.stdout))


def _next_prompt(
    name: str, text: str, options: argparse.Namespace
) -> tuple[PromptIR | CompiledPrompt, Explanation | None]:
    """Return the prompt of the conversation's next turn, and the scores of its units."""
    document = Document(name, text)
    with naming_lines(document):
        ir = _hydrated(document, json.loads(text) if document.around else {}, options)
        prompt = _compile(ir, options)
        return prompt, _scores(document, _ir(prompt), options) if options.output else None


def _hydrated(document: Document, body: dict[str, Any], options: argparse.Namespace) -> PromptIR:
    from rehydrate.prompt.hydration import hydrate
    from rehydrate.prompt.request import ContextRequest

    system, tools = system_and_tools(body)
    with opened_memory(options, read_only=True) as memory:
        sources = [*([memory] if memory is not None else ()), *(options.knowledge or ())]
        return hydrate(
            ContextRequest(options.query or "", budget=_budget(options)),
            sources,
            messages=document.entries,
            format=options.format,
            system=system if system.strip() else None,
            **({"tools": tools} if tools and isinstance(tools, list) else {}),
            timeout=None,  # no turn waits for it here
        )


def _compile(ir: PromptIR, options: argparse.Namespace) -> PromptIR | CompiledPrompt:
    """Return the prompt after all passes; before them if it cannot be made to fit."""
    from rehydrate.prompt.compiler import compile as compile_prompt
    from rehydrate.prompt.originals import HeldOriginals

    own = ir.history.format
    provider = options.provider or next((one for one in PROVIDERS if one == own), PROVIDERS[0])
    try:
        return compile_prompt(ir, provider, model=options.model or "", originals=HeldOriginals())
    except BudgetExceededError as error:
        say(f"warning: {error}; shown as it is before all passes")
        return ir


def _scores(document: Document, ir: PromptIR, options: argparse.Namespace) -> Explanation:
    """Return each unit's scores from a compaction of the conversation alone to the same size."""
    from rehydrate.compact.api import compact_context

    form = detect_format(document.entries) if options.format == "auto" else options.format
    return compact_context(
        document.entries,
        ir.request.query or None,
        budget_tokens=ir.history.total_tokens,
        format=form,
        thinking="keep",  # only the scores are needed; no request is made
    ).explain()


def _ir(prompt: PromptIR | CompiledPrompt) -> PromptIR:
    from rehydrate.prompt.ir import PromptIR

    return prompt if isinstance(prompt, PromptIR) else prompt.ir


# lint


class _Source(NamedTuple):
    """The linted input, and how to find its places in the file."""

    name: str
    target: Any
    document: Document | None = None

    def line(self, place: str) -> int | None:
        """Return the line number of a place, if the file has one entry a line."""
        found = _HISTORY.fullmatch(place)
        if not found or self.document is None or not self.document.is_lines:
            return None
        return self.document.line_of(int(found[1]))

    def shown(self, place: str) -> str:
        """Return the line of a place if it is known, else the place."""
        line = self.line(place)
        return f"line {line:,}" if line else place


@command(
    "find the tokens that a session wastes",
    *(_FILE, option("--fail-on", "least severity that makes the exit code 1", _GRAVE, "warning")),
    option("--rule NAME", "only this rule; repeatable", ABOUT, [], action="append"),
    option("--soft N", "soft budget in tokens (default: 50k)", tokens),
    *(_HARD, option("--model MODEL", "whose cache it is for", None, ""), FORMAT),
    option("--all", "every place, not the worst of a rule"),
    *(json_option("the findings"), COLOR),
    epilog=f"""\
FILE is a conversation, as for `rehydrate compact`, the body of a request with its tools and system
prompt, the bodies of a session's requests, one a line, or a PromptIR or compiled prompt as JSON.

Exit code: 0 without findings of the --fail-on severity or a graver one, else 1.

rules:
{"".join(f"  {name:<17}{about}{chr(10)}" for name, about in ABOUT.items())}
examples:
  rehydrate lint request.json --model claude-sonnet-4-5 --fail-on error
  rehydrate lint session.jsonl --rule echo --rule raw_log --all
  rehydrate lint session.jsonl --json | jq '.findings[] | select(.tokens > 1000)'
""",
)
def _lint(options: argparse.Namespace) -> int:
    from rehydrate.linting.linter import lint_subject

    source = _source(*text_of(options.file))
    budget = None if options.soft is None and options.hard is None else _budget(options)
    with naming_lines(source.document):
        subject = Subject.of(
            source.target, format=options.format, model=options.model, budget=budget
        )
    if subject.is_empty:
        raise Failure(f"{source.name} holds no conversation: no message that says anything")
    findings = lint_subject(subject, options.rule or None)
    shown = [
        {**finding._asdict(), **({"line": line} if (line := source.line(finding.place)) else {})}
        for finding in findings
    ]
    tokens = {"tokens": subject.whole_tokens, "current_tokens": subject.tokens}
    answer(
        options,
        {**tokens, "findings": shown},
        lambda terminal: _lines(source, subject, findings, terminal, every=options.all),
    )
    failed = options.fail_on != "never" and any(
        finding.is_at_least(options.fail_on) for finding in findings
    )
    return FOUND if failed else 0


def _source(name: str, text: str) -> _Source:
    """Read a PromptIR, a compiled prompt, the body of a request, or messages."""
    if target := _prompt_in(text) or _requests(text):
        return _Source(name, target)
    document = Document(name, text)
    if not _OF_A_BODY.isdisjoint(document.around):
        return _Source(name, json.loads(text), document)
    return _Source(name, document.entries, document)


def _requests(text: str) -> list[Any]:
    """Return the bodies of a session's requests, one per line; none if a line is anything else."""
    lines = [line for line in text.split("\n") if line.strip()]
    bodies: list[Any] = []
    for line in lines if len(lines) > 1 else ():
        try:
            bodies.append(json.loads(line))
        except (ValueError, RecursionError):  # the reader of documents reports it
            return []
        if not is_request(bodies[-1]):
            return []
    return bodies


def _lines(
    source: _Source,
    subject: Subject,
    findings: Sequence[Finding],
    terminal: Terminal,
    *,
    every: bool,
) -> Iterator[str]:
    figures = f": {plural(subject.whole_tokens, 'token')}, {plural(subject.steps, 'request')}; "
    figures += plural(len(findings), "finding") if findings else "nothing found"
    name = terminal.fit_end(source.name, max(terminal.width - len(figures), NARROWEST))
    yield f"{name}{figures}"
    if subject.tokens_before:
        yield (
            f"{subject.tokens_before:,} of them are before the last compaction, {subject.tokens:,} "
            "in the current prompt"
        )
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:  # the most severe first, and so are the rules
        by_rule.setdefault(finding.rule, []).append(finding)
    for rule, found in by_rule.items():
        yield ""
        yield from _rule_lines(rule, found, source, terminal, every=every)


def _rule_lines(
    rule: str, found: Sequence[Finding], source: _Source, terminal: Terminal, *, every: bool
) -> Iterator[str]:
    severity = found[0].severity
    tokens = sum(finding.tokens for finding in found)
    places = [plural(len(found), "place")] if len(found) > 1 else []
    figures = ", ".join([*places, f"{tokens:,} tokens"] if tokens else places)
    figures = f" ({figures})" if figures else ""
    left = terminal.width - 8 - len(rule) - len(figures)
    yield (
        terminal.paint(pad(severity, 8), _STYLES[severity])
        + terminal.paint(rule, "bold")
        + terminal.fit(f": {ABOUT[rule]}", left)
        + figures
    )
    shown = found if every else found[:SHOWN_PLACES]
    places = [source.shown(finding.place) or "all of it" for finding in shown]
    columns = [
        Column("", [terminal.fit(place, PLACE_CELLS) for place in places]),
        Column("", [f"{finding.tokens:,}" if finding.tokens else "" for finding in shown], ">"),
    ]
    words = [_HISTORY.sub(lambda place: source.shown(place[0]), each.message) for each in shown]
    room = terminal._replace(width=terminal.width - 2)
    yield from (f"  {line}" for line in table(columns, room, Column("", words)))
    if len(found) > len(shown):
        left = sum(finding.tokens for finding in found[len(shown) :])
        yield f"  {len(found) - len(shown):,} more, {left:,} tokens (--all)"
    arrow = terminal.glyph("→", "->")
    # Without the place of a single finding.
    remedies = [re.sub(r"a reference to \S+", "a reference", each.remedy) for each in shown]
    for remedy in dict.fromkeys(remedies):
        yield f"  {arrow} {terminal.fit(remedy, max(terminal.width - 4, NARROWEST))}"
