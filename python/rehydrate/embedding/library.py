"""ONNX Runtime's shared library: found inside the `onnxruntime` wheel, checked before it is used.

Nothing here imports `onnxruntime`: its Python extension is a second copy of the same code.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from rehydrate.errors import ModelError

API_VERSION = 17
"""The oldest interface that serves: ONNX Runtime 1.17."""

OVERRIDE = "ORT_DYLIB_PATH"
"""The environment variable that names another library, as everywhere else in Rust's world."""

_REINSTALL = "reinstall it: pip install --force-reinstall onnxruntime"


class Library(NamedTuple):
    """A library that answered, and the version it gave."""

    path: Path
    version: str


def onnxruntime_library() -> Library:
    """The library to load, checked.

    Raises ModelError where there is none, or where it is damaged, too old, or something else.
    """
    named = os.environ.get(OVERRIDE)
    path = Path(named).absolute() if named else _in_the_wheel()
    return Library(path, _version(path))


def _in_the_wheel() -> Path:
    install = f"install it: pip install onnxruntime (or set {OVERRIDE} to a library you have)"
    spec = find_spec("onnxruntime")
    if spec is None:
        raise ModelError("onnxruntime", "the package is not installed", install)
    pattern = {"win32": "onnxruntime.dll", "darwin": "libonnxruntime*.dylib"}
    for folder in spec.submodule_search_locations or ():
        # The file's name ends in the version, and none has the plain name.
        found = sorted(Path(folder).glob("capi/" + pattern.get(sys.platform, "libonnxruntime.so*")))
        if found:
            return found[0].absolute()
    where = next(iter(spec.submodule_search_locations or ()), "onnxruntime")
    raise ModelError(where, "holds no ONNX Runtime library under capi/", _REINSTALL)


class _ApiBase(ctypes.Structure):
    """`OrtApiBase` of onnxruntime_c_api.h."""

    _fields_ = (
        ("get_api", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)),
        ("get_version", ctypes.CFUNCTYPE(ctypes.c_char_p)),
    )


def _version(path: Path) -> str:
    remedy = f"correct {OVERRIDE} or unset it" if os.environ.get(OVERRIDE) else _REINSTALL
    if not path.is_file():
        raise ModelError(path, "no such file", remedy)
    if sys.platform.startswith("linux") and not _is_whole_elf(path):
        raise ModelError(path, "is no shared library, or a part of one", remedy)
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read when the library starts
    try:
        entry = ctypes.CDLL(str(path)).OrtGetApiBase
    except (OSError, AttributeError) as error:
        problem = f"cannot be loaded as ONNX Runtime: {error}"
        raise ModelError(path, problem, remedy) from None
    entry.restype = ctypes.POINTER(_ApiBase)
    entry.argtypes = ()
    base = entry()
    if not base:
        raise ModelError(path, "answers with no interface at all", remedy)
    version = (base.contents.get_version() or b"").decode("ascii", "replace")
    parts = version.split(".")
    # Asked for an interface it does not know, an old library says so on standard error: so compare
    # before asking.
    minor = int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else 0
    if minor < API_VERSION or not base.contents.get_api(API_VERSION):
        problem = f"is ONNX Runtime {version or 'of no version'}, needed: 1.{API_VERSION} or newer"
        upgrade = "upgrade it: pip install --upgrade onnxruntime"
        raise ModelError(path, problem, remedy if os.environ.get(OVERRIDE) else upgrade)
    return version


def _is_whole_elf(path: Path) -> bool:
    """Whether every section of an ELF file is there.

    The system's loader maps what the headers promise and dies of SIGBUS where the file is shorter.
    """
    with path.open("rb") as file:
        header = file.read(64)
    if len(header) < 64 or header[:5] != b"\x7fELF\x02":
        return False
    order = "<" if header[5] == 1 else ">"
    (sections,) = struct.unpack_from(order + "Q", header, 40)
    size, count = struct.unpack_from(order + "HH", header, 58)
    return bool(path.stat().st_size >= sections + size * count)
