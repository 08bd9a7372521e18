"""Where converted models live: one folder each, found by its name.

`$REHYDRATE_HOME/models` if that variable is set; else `rehydrate/models` in the user's cache
(`$XDG_CACHE_HOME`, `%LOCALAPPDATA%` on Windows, `~/.cache`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from rehydrate.errors import InvalidArgumentError

MANIFEST = "rehydrate.json"
"""The file that says what a model folder holds, and that makes a folder one of ours."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def models_home(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of all converted models; it need not exist.

    >>> models_home({"REHYDRATE_HOME": "/data/rehydrate"}).as_posix()
    '/data/rehydrate/models'
    >>> models_home({"XDG_CACHE_HOME": "/var/cache/me"}).as_posix()
    '/var/cache/me/rehydrate/models'
    """
    if home := environ.get("REHYDRATE_HOME"):
        return Path(home).expanduser() / "models"
    cache = environ.get("XDG_CACHE_HOME")
    if not cache and sys.platform == "win32":
        cache = environ.get("LOCALAPPDATA")
    return (Path(cache) if cache else Path.home() / ".cache") / "rehydrate" / "models"


def model_folder(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of the model of this name, whether it exists or not.

    >>> model_folder("minilm", {"REHYDRATE_HOME": "/data"}).as_posix()
    '/data/models/minilm'

    Raises:
        InvalidArgumentError: a name that could lead out of the home, or that hides.
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"model name is {name[:100]!r}, expected at most 100 letters, digits, '.', '_' or '-', "
            "the first no '.' or '-'; choose a plain name"
        )
    return models_home(environ) / name


def find_model(name: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of the converted model of this name, or None where there is none.

    >>> find_model("minilm", {"REHYDRATE_HOME": "/nowhere"}) is None
    True
    """
    if not _NAME.fullmatch(name):
        return None
    folder = models_home(environ) / name
    return folder if (folder / MANIFEST).is_file() else None


def installed_models(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The folders of all converted models, by name.

    >>> installed_models({"REHYDRATE_HOME": "/nowhere"})
    []
    """
    home = models_home(environ)
    if not home.is_dir():
        return []
    return sorted(
        folder
        for folder in home.iterdir()
        if _NAME.fullmatch(folder.name) and (folder / MANIFEST).is_file()
    )
