"""README.md and docs/: each example runs alone and prints what it says; names and links exist."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
import shutil
import socket
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

import rehydrate.process
from rehydrate import cli
from rehydrate.errors import MissingPackageError
from rehydrate.formats import THINKING_MODELS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [
    *PAGES,
    *(ROOT / name for name in ("DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(ROOT / place / "README.md" for place in ("benches", "examples")),
]
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")

FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?"
    r"```python\n(?P<code>.*?)^```\n"
    r"(?:\n?```text\n(?P<printed>.*?)^```)?",
    re.DOTALL | re.MULTILINE,
)


class Example(NamedTuple):
    """One Python fence of a page."""

    where: str
    code: str
    printed: str | None
    reason: str | None
    """Why it is not run."""


def examples(page: Path) -> list[Example]:
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start("code"))
        # A traceback counts lines as the page does.
        code = "\n" * line + fence["code"]
        found.append(Example(f"{page.name}:{line + 1}", code, fence["printed"], fence["reason"]))
    return found


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A temporary directory next to the repository's examples, without keys and network."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    # LiteLLM asks the network for prices while it is imported.
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")

    def refuse(*_: object) -> None:
        raise AssertionError("an example of the documentation needs no network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    limit, models = rehydrate.process.cache_limit(), dict(THINKING_MODELS)
    yield
    THINKING_MODELS.clear()
    THINKING_MODELS.update(models)
    rehydrate.process.cache_limit(limit)


@pytest.mark.filterwarnings("ignore:Items? .* using the `ReadOnly` qualifier")  # LiteLLM's types
@pytest.mark.filterwarnings("ignore:.* attribute .*is deprecated")  # LlamaIndex, of pydantic
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_example_runs_alone_and_prints_what_the_page_says(page: Path, offline: None) -> None:
    for example in examples(page):
        program = compile(example.code, example.where, "exec")
        if example.reason is None:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                try:
                    exec(program, {"__name__": "__main__"})
                except ImportError as error:
                    if is_optional(error):
                        continue
                    raise
            assert printed.getvalue() == (example.printed or ""), example.where


def is_optional(error: ImportError) -> bool:
    """Whether a package of the group `test` is missing, as it may be where wheels are tested."""
    if isinstance(error, MissingPackageError):
        return True
    return isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("rehydrate")


def imported(tree: ast.AST) -> list[tuple[str, str]]:
    """Each name of this package that the code imports or reaches, with its module."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rehydrate"):
            names += [(str(node.module), alias.name) for alias in node.names]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "rehydrate":
            names.append(("rehydrate", node.attr))
    return names


def test_every_name_that_an_example_imports_exists() -> None:
    for page in PAGES:
        for example in examples(page):
            for module, name in imported(ast.parse(example.code)):
                with contextlib.suppress(MissingPackageError):  # the host of an adapter
                    assert getattr(import_module(module), name, None) is not None, (
                        example.where,
                        name,
                    )


def test_every_python_fence_is_seen() -> None:
    for page in PAGES:
        fences = re.findall(r"^\s*```python", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) == len(examples(page)), page.name


# ---------------------------------------------------------------------------------------- commands


def commands(page: Path) -> list[str]:
    """Each `rehydrate` command in a fence, up to the first pipe or redirection."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    shell = "\n".join(text for name, text in fences if name in ("", "bash", "console"))
    lines = re.findall(r"^(?:\$ )?(rehydrate .*)", shell.replace("\\\n", " "), re.MULTILINE)
    return [re.split(r" [|>] ", line)[0] for line in lines]


def test_the_command_line_knows_every_command() -> None:
    for page in PAGES:
        for command in commands(page):
            _, *arguments = shlex.split(command, comments=True)
            assert arguments, (page, command)
            cli._parser().parse_args(arguments)  # exits where it does not know them


def test_every_make_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        targets = re.findall(r"^make (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert [target for target in targets if f"\n{target}:" not in makefile] == []


# ------------------------------------------------------------------------------------------- links


def without_code(text: str) -> str:
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]+`", "", text)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MkDocs both name them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    slugs = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slugs.add(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain.lower()).strip()))
    return slugs


def links(page: Path) -> list[str]:
    text = without_code(page.read_text(encoding="utf-8"))
    found = re.findall(r"\]\(([^)\s]+)\)", text)
    found += re.findall(r'(?:src|srcset|href)="([^"]+)"', text)
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    for page in LINKED:
        for link in links(page):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), (page, link)
            if anchor:
                assert anchor in anchors(target), (page, link)


def test_the_index_links_every_page() -> None:
    linked = {link.partition("#")[0] for link in links(ROOT / "docs" / "index.md")}
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in PAGES[1:]}
    assert pages - {"index.md"} - linked == set()


def test_design_names_files_that_exist() -> None:
    sources = ROOT / "python" / "rehydrate"
    if not sources.exists():
        pytest.skip("the sources are not here")
    homes = [ROOT, sources, ROOT / "rust" / "rehydrate-core" / "src"]
    text = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./-]+(?:\.(?:py|rs|md|toml)|/))`", text))
    assert len(named) > 50
    assert [
        name for name in sorted(named) if not any((home / name).exists() for home in homes)
    ] == []


def test_design_names_commands_that_exist() -> None:
    text = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    for module in set(re.findall(r"python -m (benches[\w.]+)", text)):
        path = ROOT / module.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), module
    for bench in set(re.findall(r"--bench (\w+)", text)):
        assert (ROOT / "rust/rehydrate-core/benches" / f"{bench}.rs").is_file(), bench
