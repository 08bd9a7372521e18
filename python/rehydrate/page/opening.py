"""How every page opens: no script, nothing loaded, its styles inside."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from rehydrate.page.escaping import escaped


def opening(title: str, *styles: tuple[str, str], body: str = "<body>") -> Iterator[str]:
    """The lines up to the body's tag; of each style beside the shared one, its package and file."""
    own = (("rehydrate.page", "style.css"), *styles)
    style = "".join(files(package).joinpath(file).read_text("utf-8") for package, file in own)
    yield "<!doctype html>"
    yield '<html lang="en">'
    yield "<head>"
    yield '<meta charset="utf-8">'
    yield (
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    )
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escaped(title)}</title>"
    yield f"<style>\n{style}</style>"
    yield "</head>"
    yield body
