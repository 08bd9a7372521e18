"""Which files each distribution has, as the pyproject.toml of each says. Standard library only."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CORE = "rehydrate"
OTHERS = ("rehydrate_hosts", "rehydrate_lab", "rehydrate_postgres")
"""Pure Python, each built from a folder of python/; names as wheels have them."""
ALL = (CORE, *OTHERS)


def folder(name: str, root: Path = ROOT) -> Path:
    """Return the folder with the pyproject.toml of a distribution, in a tree."""
    return root if name == CORE else root / "python" / name.removeprefix("rehydrate_")


def manifest(name: str) -> dict[str, Any]:
    """Return the pyproject.toml of a distribution."""
    return tomllib.loads((folder(name) / "pyproject.toml").read_text(encoding="utf-8"))


def rooms(name: str) -> list[str]:
    """Return the files and folders of python/ that a distribution takes out of the tree."""
    wheel = manifest(name)["tool"]["hatch"]["build"]["targets"]["wheel"]
    return list(wheel["force-include"].values())


def files() -> dict[str, set[str]]:
    """Return the files of the package by distribution; what no other takes is the core's."""
    tree = ROOT / "python"
    left = {
        file.relative_to(tree).as_posix()
        for file in (tree / CORE).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and file.suffix not in (".so", ".pyd")
    }
    found: dict[str, set[str]] = {}
    for name in OTHERS:
        taken = rooms(name)
        found[name] = {
            file for file in left if any(file == one or file.startswith(f"{one}/") for one in taken)
        }
        left -= found[name]
    return {CORE: left, **found}


def homes() -> dict[str, str]:
    """Return the distribution of each module, by its dotted name."""
    return {
        file.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
        for name, held in files().items()
        for file in held
        if file.endswith(".py")
    }
