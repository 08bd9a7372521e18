"""`rehydrate memory`: adds, finds and maintains what outlives a conversation."""

from __future__ import annotations

from typing import Any

from rehydrate.cli import memory_add, memory_care, memory_list, memory_search
from rehydrate.cli.memory_store import NAMESPACE_VARIABLE, STORE_VARIABLE
from rehydrate.cli.options import add_command

_EXAMPLES = f"""\
Every command names a namespace, such as a project or a user: --namespace NAME, or once for all
{NAMESPACE_VARIABLE}. What is in another namespace does not exist for it. The file is --store PATH,
or {STORE_VARIABLE}, or one in the folder of your data; a command's --help says where.

start here:
  export {NAMESPACE_VARIABLE}=ferryman
  rehydrate memory sync notes                          a folder of notes, and what changed in it
  rehydrate memory add "Staging listens on 8443."      one thing to remember
  rehydrate memory search "which port is staging on?"  what is known about it
  rehydrate memory show mem_...                        the whole of what was found

rehydrate memory COMMAND --help says more about a command.
"""


def add_parser(commands: Any) -> None:
    """Declare the command, its subcommands and their options."""
    parser = add_command(
        commands,
        "memory",
        help="keep texts in a file, find them again by words and by meaning",
        description="A memory: texts in one file, found by words, parts of words and meaning.",
        epilog=_EXAMPLES,
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND")
    for part in (memory_add, memory_search, memory_list, memory_care):
        part.add_parser(parts)
