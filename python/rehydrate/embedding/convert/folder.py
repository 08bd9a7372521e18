"""Writing a model folder whole or not at all: beside its place first, then renamed onto it."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from rehydrate.embedding.convert.errors import ConversionError
from rehydrate.embedding.home import MANIFEST


def check_output(output: Path, *, overwrite: bool) -> None:
    """Refuse a place that is taken, before hours of work rather than after.

    Raises:
        ConversionError: something is there, and it may not or should not be replaced.
    """
    if not output.exists() and not output.is_symlink():
        return
    if not output.is_dir() or output.is_symlink():
        raise ConversionError(output, "is no folder", "name another with --output")
    if not any(output.iterdir()):
        return
    if not (output / MANIFEST).is_file():
        problem = f"holds other things than a model (no {MANIFEST}), which are not replaced"
        raise ConversionError(output, problem, "name another folder with --output")
    if not overwrite:
        raise ConversionError(output, "is there already", "pass --force to replace it")


def write_folder(output: Path, files: Mapping[str, bytes]) -> None:
    """Write the files into a folder that appears with all of them or not at all.

    Raises:
        ConversionError: the disk is full, or the place cannot be written.
    """
    token = secrets.token_hex(4)
    fresh = output.with_name(f".{output.name}.{token}.new")
    stale = output.with_name(f".{output.name}.{token}.old")
    try:
        try:
            fresh.mkdir(parents=True)
            for name, content in files.items():
                with (fresh / name).open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            _sync(fresh)
            _exchange(fresh, output, stale)
            _sync(output.parent)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(stale, ignore_errors=True)
    except OSError as error:
        megabytes = sum(map(len, files.values())) / 1e6
        problem = f"cannot be written: {error.strerror or error} ({megabytes:.1f} MB needed)"
        raise ConversionError(output, problem, "make room, or name another --output") from None


def _exchange(fresh: Path, output: Path, stale: Path) -> None:
    """Put `fresh` in the place of `output`, which comes back if that fails."""
    if not output.exists():
        fresh.rename(output)
        return
    output.rename(stale)
    try:
        fresh.rename(output)
    except BaseException:
        stale.rename(output)
        raise


def _sync(folder: Path) -> None:
    """Make names in a folder last through a power cut; Windows has no such call."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
