"""A page as a reader sees it: a strict parser, which refuses unbalanced markup."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple

SHAPES = {"rect", "line", "polygon", "polyline"}
VOID = {"meta", "input", "br"} | SHAPES
ELEMENTS = VOID | {
    *("html", "head", "title", "style", "body", "header", "main", "section", "div", "p", "h1"),
    *("h2", "table", "thead", "tbody", "tr", "th", "td"),
    *("span", "b", "i", "em", "bdi", "ul", "li", "label", "svg", "a", "details", "summary"),
    *("figure", "text", "circle", "mark"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "class", "id", "style", "dir", "role"),
    *("open", "colspan"),
    *("aria-label", "type", "viewbox", "preserveaspectratio", "href", "x", "y", "width", "height"),
    *("x1", "x2", "y1", "y2", "cx", "cy", "r", "points"),
}


class Box(NamedTuple):
    """The text of one element on one side of the page."""

    side: str
    classes: frozenset[str]
    unit: str
    text: str


class Page(HTMLParser):
    """Every box of text of a page, in order; AssertionError for invalid HTML."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        assert page.startswith("<!doctype html>\n")
        page.encode()
        self.boxes: list[Box] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self._texts: list[str] = []
        self._open: list[tuple[str, frozenset[str]]] = []
        self._side = self._unit = ""
        self._box: list[str] | None = None
        self.feed(page)
        self.close()
        self.text = "".join(self._texts)
        assert self._open == []
        assert len(self.ids) == len(set(self.ids))
        assert {link.removeprefix("#") for link in self.links} <= set(self.ids)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, tag
        assert {name for name, _ in attrs} <= ATTRIBUTES, attrs
        values = dict(attrs)
        if link := values.get("href"):
            assert link.startswith("#")
            self.links.append(link)
        if name := values.get("id"):
            self.ids.append(name)
        if tag in VOID:
            return
        classes = frozenset((values.get("class") or "").split())
        inside = [name for name, _ in self._open]
        if tag in ("div", "section", "details", "p"):
            assert "p" not in inside, "no block is in a paragraph"
        self._open.append((tag, classes))
        if "unit" in classes:
            self._unit = values.get("id") or "between"
        if classes & {"was", "now"}:
            (self._side,) = classes & {"was", "now"}
        if classes & {"text", "mark", "who", "preview", "cut", "fate"}:
            self._box = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in SHAPES | {"circle"}
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        opened, classes = self._open.pop()
        assert opened == tag
        if self._box is not None and classes & {"text", "mark", "who", "preview", "cut", "fate"}:
            self.boxes.append(Box(self._side, classes, self._unit, "".join(self._box)))
            self._box = None

    def handle_data(self, data: str) -> None:
        self._texts.append(data)
        if self._box is not None:
            self._box.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")

    def of(self, side: str, unit: int, *classes: str) -> list[str]:
        """Return the texts on one side of one unit, of boxes of any of these classes."""
        return [
            box.text
            for box in self.boxes
            if (box.side, box.unit) == (side, f"u{unit}") and box.classes & {*classes}
        ]
