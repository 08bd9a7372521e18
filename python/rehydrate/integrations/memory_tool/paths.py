"""Paths of the memory tool: each is checked before anything else."""

from __future__ import annotations

from urllib.parse import unquote

from rehydrate.integrations.memory_tool.refusal import Refusal

ROOT = "/memories"
MAX_CHARS = 512


def checked_path(path: object, name: str = "path") -> str:
    """Return a path below /memories without needless slashes; raises Refusal for any other.

    The files are rows of a database, so no path leads out of it. Paths that would lead out of a
    folder are refused all the same: a model that sends one is wrong, or misled.

    >>> checked_path("/memories//notes/a.md")
    '/memories/notes/a.md'
    """
    if not isinstance(path, str) or not path:
        raise Refusal(f"Error: `{name}` is {path!r}; send a path such as {ROOT}/notes.md")
    if len(path) > MAX_CHARS:
        raise Refusal(f"Error: `{name}` has {len(path)} characters; send at most {MAX_CHARS}")
    if not path.isprintable() or "\\" in path:
        raise Refusal(f"Error: Path {path!r} has a character that no file name here may have")
    parts = [part for part in path.split("/") if part and part != "."]
    decoded = unquote(unquote(path)).replace("\\", "/").split("/")
    if not path.startswith("/") or not parts or f"/{parts[0]}" != ROOT:
        raise Refusal(f"Error: Path must start with {ROOT}, got: {path}")
    if ".." in parts or ".." in decoded:
        raise Refusal(f"Error: Path {path} would escape {ROOT} directory")
    return "/" + "/".join(parts)


def folders_of(path: str) -> list[str]:
    """Return the folders above a file, the outermost first.

    >>> folders_of("/memories/a/b.md")
    ['/memories', '/memories/a']
    """
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]
