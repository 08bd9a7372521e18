"""`rehydrate inspect`: the content, costs and sources of a prompt, and what was removed and why."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rehydrate._document import Document, document_of
from rehydrate.cli.memory_store import add_memory_options, opened_memory
from rehydrate.cli.options import add_command, add_format_option, some_tokens, text_of
from rehydrate.cli.terminal import Failure, Terminal, say, say_written, show, write
from rehydrate.errors import BudgetExceededError, InvalidMessageError
from rehydrate.formats import detect_format
from rehydrate.messages import PROVIDERS

if TYPE_CHECKING:
    from rehydrate.compact.result import Explanation
    from rehydrate.prompt.ir import CompiledPrompt, PromptIR
    from rehydrate.prompt.request import Budget


_LEFT_ALONE = ("query", "memory", "namespace", "knowledge", "budget", "hard", "provider", "model")

_EXAMPLES = """\
FILE is a conversation, as for `rehydrate compact`, the body of a request with its tools and system
prompt, or a PromptIR or compiled prompt as JSON (PromptIR.to_json(), or --json here).

Of a conversation the prompt of its next turn is made first: sources are asked, passes run. Nothing
is sent and nothing remembered. Without -o the prompt is printed as a table.

`rehydrate thread store THREAD -o PAGE` has a page of a stored thread's context store.

examples:
  rehydrate inspect session.jsonl
  rehydrate inspect session.jsonl -o report.html --query "the failing login test"
  rehydrate inspect session.jsonl -o report.html --memory memory.db --namespace alice
  rehydrate inspect request.json --budget 20k --json > prompt.json
  rehydrate inspect prompt.json -o report.html
"""


def add_parser(commands: Any) -> None:
    """Declare the command and its options."""
    parser = add_command(
        commands,
        "inspect",
        help="show a prompt: what stands in it, why, and what it costs",
        description="Sections in order with tokens, priority and provenance, what was left out and "
        "why, cache breakpoints, sources, passes, and the score of each unit of the history.",
        epilog=_EXAMPLES,
        run=run,
    )
    parser.add_argument("file", metavar="FILE", help="the session or prompt; - reads stdin")
    parser.add_argument("-o", "--output", metavar="PAGE", help="one HTML page that needs nothing")
    parser.add_argument("--json", action="store_true", help="write the PromptIR as JSON")

    turn = parser.add_argument_group("the turn, of a conversation")
    turn.add_argument("--query", metavar="TEXT", help="what it is about")
    add_memory_options(turn)
    turn.add_argument(
        "--knowledge", metavar="PATH", action="append",
        help="a document or folder to look things up in; repeatable",
    )  # fmt: skip
    turn.add_argument("--budget", type=some_tokens, metavar="N", help="soft budget (default: 50k)")
    turn.add_argument("--hard", type=some_tokens, metavar="N", help="hard budget (default: 180k)")
    turn.add_argument("--provider", choices=PROVIDERS, help="default: the conversation's own")
    turn.add_argument("--model", help="whose prompt it is")
    add_format_option(turn)


def run(options: argparse.Namespace) -> int:
    """Read, make the prompt and write; return the exit code."""
    page = None if options.output in (None, "-") else Path(options.output)
    _check_files(options, page)
    name, text = text_of(options.file)
    prompt, units = _prompt_in_file(text, options) or _next_prompt(name, text, options)
    if options.json:
        write(_ir(prompt).to_json(indent=2) + "\n")
    if options.output:
        inspector_page = import_module("rehydrate.page").inspector_page  # of another distribution
        write(inspector_page(prompt, units=units, title=name), page)
        if page is not None:
            say_written(page, f"the prompt of {name}, {_ir(prompt).tokens:,} tokens")
    if not (options.json or options.output):
        show(_lines(prompt), Terminal.of(sys.stdout, "auto"))
    return 0


def _prompt_in_file(
    text: str, options: argparse.Namespace
) -> tuple[PromptIR | CompiledPrompt, None] | None:
    """Return the prompt in the file, if it is one."""
    if text.lstrip()[:1] != "{" or '"rehydrate"' not in text:
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):  # lines, or no JSON: its reader reports it
        return None
    if not isinstance(document, dict) or not isinstance(document.get("rehydrate"), str):
        return None
    for option in _LEFT_ALONE:
        if getattr(options, option, None):
            raise Failure(f"--{option} makes a prompt of a conversation; {options.file} is one")
    from rehydrate.prompt.ir import CompiledPrompt, PromptIR

    kind = CompiledPrompt if document["rehydrate"] == "compiled_prompt" else PromptIR
    return kind.from_dict(document), None


def _next_prompt(
    name: str, text: str, options: argparse.Namespace
) -> tuple[PromptIR | CompiledPrompt, Explanation | None]:
    """Return the prompt of the conversation's next turn, and the scores of its units."""
    document = document_of(name, text)
    try:
        ir = _hydrated(document, json.loads(text) if document.around else {}, options)
        prompt = _compile(ir, options)
        return prompt, _scores(document, _ir(prompt), options) if options.output else None
    except InvalidMessageError as error:
        if error.index is None or error.index >= len(document.entries):
            raise
        line = document.line_of(error.index)
        raise Failure(f"line {line} of {document.name}: {error}") from None


def _hydrated(document: Document, body: dict[str, Any], options: argparse.Namespace) -> PromptIR:
    from rehydrate.prompt.hydration import hydrate
    from rehydrate.prompt.request import ContextRequest

    system = _system_text(body.get("system", body.get("instructions")))
    tools = body.get("tools")
    with opened_memory(options) as memory:
        sources = [*([memory] if memory is not None else ()), *(options.knowledge or ())]
        return hydrate(
            ContextRequest(options.query or "", budget=_budget(options)),
            sources,
            messages=document.entries,
            format=options.format,
            system=system,
            **({"tools": tools} if isinstance(tools, list) else {}),
            timeout=None,  # no turn waits for it here
        )


def _system_text(value: Any) -> str | None:
    """Return the system prompt of a request's body: a text, or blocks of it."""
    if isinstance(value, list):
        texts = [block.get("text") for block in value if isinstance(block, dict)]
        value = "\n\n".join(text for text in texts if isinstance(text, str))
    return value if isinstance(value, str) and value.strip() else None


def _compile(ir: PromptIR, options: argparse.Namespace) -> PromptIR | CompiledPrompt:
    """Return the prompt after all passes; before them where it cannot be made to fit."""
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


def _budget(options: argparse.Namespace) -> Budget:
    from rehydrate.prompt.request import Budget

    standard = Budget()
    soft = options.budget or min(standard.soft_tokens, options.hard or standard.soft_tokens)
    return Budget(soft, options.hard or max(standard.hard_tokens, soft))


def _ir(prompt: PromptIR | CompiledPrompt) -> PromptIR:
    from rehydrate.prompt.ir import PromptIR

    return prompt if isinstance(prompt, PromptIR) else prompt.ir


def _lines(prompt: PromptIR | CompiledPrompt) -> Iterator[str]:
    yield from str(prompt.explain()).splitlines()
    yield ""
    broken = _ir(prompt).verify()
    yield "breaks no law" if not broken else f"breaks {len(broken):,} laws:"
    yield from (f"  {' '.join(str(one).split())}" for one in broken)


def _check_files(options: argparse.Namespace, page: Path | None) -> None:
    if options.json and options.output == "-":
        raise Failure("--json and -o - both write to standard output; name a file with -o")
    if page is None or options.file == "-":
        return
    try:
        is_same = page.samefile(options.file)
    except (OSError, ValueError):
        return
    if is_same:
        raise Failure(f"-o {page} would overwrite the input; name another file")
