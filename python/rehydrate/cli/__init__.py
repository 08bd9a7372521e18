"""The command line: compact, batch, eval, inspect, lint, memory, thread, rpc, mcp, claude, proxy,
model, doctor.

A module has its `command`, by which it declares each of its commands on the function that runs it.
Everything else is imported when they run.

Exit codes: 0 done, 1 doctor, lint or verify found something, 2 a mistake in the arguments or the
input, 70 a bug of Rehydrate, 130 interrupted, 141 nobody reads the output any more.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

from rehydrate import __version__
from rehydrate._distributions import HOMES
from rehydrate.cli.options import help_of
from rehydrate.cli.terminal import INTERNAL, USAGE, Failure, Terminal, say, show
from rehydrate.errors import InternalError, MissingPackageError, RehydrateError

MODULES = {
    **{name: (name,) for name in ("compact", "batch", "eval")},
    "inspect": ("inspect", "lint"),
    **{name: (name,) for name in ("memory", "thread")},
    "hosts": ("rpc", "mcp", "claude"),
    **{name: (name,) for name in ("proxy", "model", "doctor")},
}
"""The modules here and their commands; some are in distributions that may not be installed."""
_COMMANDS = {command for own in MODULES.values() for command in own}
INTERRUPTED = 128 + 2
BROKEN_PIPE = 128 + 13

_EXAMPLES = """\
start here:
  rehydrate doctor                            is everything in place?
  rehydrate compact session.jsonl --explain   what would be kept and dropped, and why
  rehydrate compact session.jsonl > small.jsonl
  rehydrate compact session.jsonl --granularity excerpt --html page.html

rehydrate COMMAND --help says more about a command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    try:
        arguments = sys.argv[1:] if arguments is None else arguments
        options = _parser(arguments[0] if arguments else "").parse_args(arguments)
        code: int = options.run(options) or 0
        return code
    except Failure as failure:
        code, line = failure.code, str(failure)
    except InternalError as error:
        code = INTERNAL
        line = f"internal error: {error}; the input was not changed, please report this"
    except RehydrateError as error:
        code, line = USAGE, str(error)
    except BrokenPipeError:
        return BROKEN_PIPE
    except OSError as error:  # a full disk, a missing right: no fault of the command
        where = f"{error.filename}: " if error.filename else ""
        code, line = USAGE, f"{where}{error.strerror or error}"
    except KeyboardInterrupt:
        return INTERRUPTED
    say(f"rehydrate: {line}")
    return code


class _Parser(argparse.ArgumentParser):
    """Reports a mistake in one line, with what may be meant; argparse would print the whole usage
    before it."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what this command does not know here, where its own options are known."""
        first = args[0].partition("=")[0] if args else ""
        if first not in self._option_string_actions and _is_of_a_command(first, self):
            self.error(f"{first} belongs after the command: {self.prog} COMMAND {first}")
        options, rest = super().parse_known_args(args, namespace)
        if rest:
            names = [str(each.metavar) for each in self._get_positional_actions()]
            meant = f"; it takes {' '.join(names) or 'options only'}"
            if rest[0].startswith("-"):
                meant = _nearest(rest[0].partition("=")[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(rest)}{meant}")
        return options, rest

    def error(self, message: str) -> NoReturn:
        """Print the line and leave."""
        if wrong := _NO_CHOICE.search(message):
            message += _nearest(wrong[1], re.findall(r"[\w-]+", wrong[2]))
        say(f"{self.prog}: {message} (see {self.prog} --help)")
        raise SystemExit(USAGE)

    def _print_message(self, message: str, file: Any = None) -> None:  # noqa: ARG002
        """Print help, or the version; argparse is silent if that cannot be written."""
        show(message.splitlines(), Terminal.of(sys.stdout))


def _is_of_a_command(option: str, parser: argparse.ArgumentParser) -> bool:
    """Return whether one of the parser's commands has the option, or a command of that."""
    commands = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return any(
        option in own._option_string_actions or _is_of_a_command(option, own)
        for each in commands
        for own in each.choices.values()
    )


_NO_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)")


def _nearest(wrong: str, known: Iterable[str]) -> str:
    names = {name.lstrip("-"): name for name in known}  # the dashes would make all options alike
    near = get_close_matches(wrong.lstrip("-"), names, n=1, cutoff=0.7)  # 0.6 takes codex for model
    return "".join(f"; did you mean {names[one]}?" for one in near)


def _parser(first: str = "") -> argparse.ArgumentParser:
    """Return the parser of the command that the first argument names, or of all commands."""
    parser = _Parser(
        prog="rehydrate",
        description="Decides what an LLM agent sees each turn: makes a long conversation fit, "
        "and keeps what matters of it byte for byte.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"rehydrate {__version__}")
    parser.set_defaults(run=help_of(parser))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, own in MODULES.items():
        if first in _COMMANDS and first not in own:
            continue
        module = f"{__name__}.{name}"
        try:
            import_module(module).command.add_to(commands)
        except MissingPackageError:
            for command in own:
                _add_missing(commands, command, f"rehydrate[{HOMES[module]}]")
    return parser


def _add_missing(commands: Any, name: str, extra: str) -> None:
    """Declare a command that is not installed: whatever follows it, it names its extra."""

    def run(_options: argparse.Namespace) -> NoReturn:
        raise MissingPackageError(extra, f"brings rehydrate {name}")

    parser = commands.add_parser(
        name, help=f"not installed: pip install '{extra}'", add_help=False, prefix_chars="\0"
    )
    parser.add_argument("rest", nargs="*")
    parser.set_defaults(run=run)
