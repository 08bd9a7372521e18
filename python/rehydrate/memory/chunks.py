"""Chunks: a text in Markdown as pieces of about 200 tokens, cut at headings and paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

CHUNK_TOKENS = 200
CHARS_A_TOKEN = 3.5

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_SENTENCE_END = re.compile(r"[.!?…]['\")\]]*\s+|[。！？]")
_FRONT_MATTER = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S | re.M
)
_SCALAR = re.compile(r"([A-Za-z_][\w-]*):[ \t]+(\S.*?)[ \t]*$", re.ASCII)


class Chunk(NamedTuple):
    """A piece of a text: `body` stands in it word for word."""

    headings: tuple[str, ...]
    """The headings it stands under, the outermost first; one that it begins with is not among
    them."""
    body: str

    @property
    def text(self) -> str:
        """What is remembered: where it stands, and the piece itself."""
        return f"{' > '.join(self.headings)}\n\n{self.body}" if self.headings else self.body


class FrontMatter(NamedTuple):
    """The block of ``name: value`` lines between ``---`` at the head of a file."""

    text: str
    """As it stands, marks included; "" where there is none."""
    scalars: dict[str, str]
    """Its plain values; what is nested is left alone."""


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    r"""The front matter of a text, and the rest.

    >>> front, rest = split_front_matter("---\ntitle: Ports\ntags:\n  - a\n---\nHello.\n")
    >>> front.scalars, rest
    ({'title': 'Ports'}, 'Hello.\n')
    """
    found = _FRONT_MATTER.match(text)
    if found is None:
        return FrontMatter("", {}), text
    scalars = {}
    for line in found[1].splitlines():
        if scalar := _SCALAR.match(line):
            scalars[scalar[1]] = scalar[2].strip("\"'")
    return FrontMatter(found[0], scalars), text[found.end() :]


def chunks(text: str, *, chunk_tokens: int = CHUNK_TOKENS) -> list[Chunk]:
    r"""A text as chunks of about `chunk_tokens`, in order. Their bodies together are the text.

    Cut before headings, else between paragraphs, else between lines, sentences or words: wherever
    the next larger thing would be too long. Code in fences is one paragraph.

    >>> for chunk in chunks("# Ports\n\nAll of them.\n\n## Staging\n\n8443\n"):
    ...     chunk
    Chunk(headings=(), body='# Ports\n\nAll of them.\n\n')
    Chunk(headings=('Ports',), body='## Staging\n\n8443\n')
    """
    most_chars = max(1, int(chunk_tokens * CHARS_A_TOKEN))
    found: list[Chunk] = []
    path: list[tuple[int, str]] = []
    parts: list[str] = []
    length = 0
    has_words = False  # else there is nothing but headings yet, which stay with what they are over
    headings: tuple[str, ...] = ()
    for block, heading in _blocks(text):
        for piece in (block,) if heading else _pieces(block, most_chars):
            if has_words and (heading or length + len(piece.rstrip()) > most_chars):
                found.append(Chunk(headings, "".join(parts)))
                parts, length, has_words = [], 0, False
            if heading:
                path = [above for above in path if above[0] < heading[0]]
            if not parts:
                headings = tuple([name for _, name in path if name])
            if heading:
                path.append(heading)
            parts.append(piece)
            length += len(piece)
            has_words = has_words or (heading is None and not piece.isspace())
    rest = "".join(parts)
    if rest and found and rest.isspace():
        found[-1] = found[-1]._replace(body=found[-1].body + rest)
    elif rest:
        found.append(Chunk(headings, rest))
    return found


def _heading(line: str) -> tuple[int, str] | None:
    """The level and the words of a heading; no regular expression, which long lines would slow."""
    words = line.strip()
    title = words.lstrip("#")
    level = len(words) - len(title)
    if not 1 <= level <= 6 or line[:4].isspace() or (title and not title[0].isspace()):
        return None
    closed = title.rstrip("#")
    return level, (closed if not closed or closed[-1].isspace() else title).strip()


def _blocks(text: str) -> Iterator[tuple[str, tuple[int, str] | None]]:
    """Headings and paragraphs, each with the blank lines after it; of a heading what it says."""
    lines: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if fence:
            lines.append(line)
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        heading = _heading(line)
        starts_anew = len(lines) > 0 and not lines[-1].strip() and line.strip()
        if lines and (heading or starts_anew):
            yield "".join(lines), None
            lines = []
        if heading:
            yield line, heading
        else:
            lines.append(line)
            fence = mark[1] if mark else ""
    if lines:
        yield "".join(lines), None


def _pieces(block: str, most_chars: int) -> Iterator[str]:
    """The block as it is, or cut between lines, sentences, words, or, at last, anywhere."""
    least_chars = most_chars // 4
    start, end = 0, len(block.rstrip())
    while end - start > most_chars:
        head = block[start : start + most_chars]
        cut = head.rfind("\n") + 1
        if cut <= least_chars:
            ends = [match.end() for match in _SENTENCE_END.finditer(head)]
            cut = ends[-1] if ends and ends[-1] > least_chars else head.rfind(" ") + 1
        if cut <= least_chars:
            cut = most_chars
        yield block[start : start + cut]
        start += cut
    yield block[start:]
