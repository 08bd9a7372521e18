"""A command line that has started already: `Started.run` costs a fork instead of a start of Python.

A run is a process of its own, with its own arguments, environment, working directory and standard
streams. Only the imports are done before.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import NoReturn

_ROOT = Path(__file__).resolve().parents[2]
_LARGEST = 1 << 20  # bytes of a request: arguments and environment


class Started:
    """A process that waits for command lines and forks for each."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.started", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=_ROOT,
            env={**os.environ, "PYTHONUTF8": "1"},
        )
        theirs.close()

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()
        self._server.wait(timeout=600)

    def run(
        self, arguments: Sequence[str], *, stdin: bytes, env: Mapping[str, str], cwd: Path
    ) -> subprocess.CompletedProcess[bytes]:
        """Run `rehydrate *arguments` to its end, at most ten minutes."""
        request = json.dumps([list(arguments), dict(env), str(cwd)]).encode()
        with TemporaryFile() as source, TemporaryFile() as out, TemporaryFile() as errors:
            source.write(stdin)
            source.seek(0)
            self._socket.settimeout(600)
            streams = [source.fileno(), out.fileno(), errors.fileno()]
            socket.send_fds(self._socket, [request], streams)
            code = int(self._socket.recv(64))
            out.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(arguments, code, out.read(), errors.read())


def _serve(requests: socket.socket) -> None:
    """Return in a child of its own for each request, and in the server when no more can come."""
    while True:
        request, streams, _flags, _address = socket.recv_fds(requests, _LARGEST, 3)
        if not request:
            os._exit(0)
        child = os.fork()
        if child == 0:
            break
        for stream in streams:
            os.close(stream)
        requests.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    requests.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    arguments, environment, folder = json.loads(request)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    if encoding := environment.get("PYTHONIOENCODING"):  # Python reads it when it starts
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            stream.reconfigure(encoding=encoding)
    sys.argv = ["rehydrate", *arguments]


def _end(code: object) -> NoReturn:
    """End as Python does, threads and exit functions included, but take no module apart: 40 ms."""
    if not isinstance(code, int):
        code = 0 if code is None else 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    import rehydrate

    modules = [each.name for each in pkgutil.walk_packages(rehydrate.__path__, "rehydrate.")]
    modules.append("langchain_core.messages.utils")  # `eval` measures it, 0.6 s to import
    # Commands use these two alone; the SDKs of all hosts take 14 s of a core to import.
    used = ("rehydrate.integrations.claude_code", "rehydrate.integrations.mcp_server")
    for module in modules:
        is_host = module.startswith("rehydrate.integrations.") and not module.startswith(used)
        if not (is_host or module.endswith("__main__")):
            with suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(module)
    from rehydrate.cli import main

    gc.collect()
    gc.freeze()  # a child that collects garbage would copy every page of the imports
    _serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        _end(main())
    except SystemExit as end:
        _end(end.code)
    except BaseException:
        traceback.print_exc()
        _end(1)
