"""Each distribution used alone: `python -m tools.try_wheels dist`.

A fresh environment gets the wheel of the core, and then loses onnxruntime. Each of the others is
installed next to it, used and taken out again, which must leave the core as it was. Exit code 1
names what failed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.distributions import CORE, OTHERS, ROOT

SESSION = str(ROOT / "examples" / "session.jsonl")

NAMES = """
import importlib, pkgutil, sys
import rehydrate
from rehydrate.errors import MissingPackageError
loaded = without = 0
for found in pkgutil.walk_packages(rehydrate.__path__, "rehydrate.", onerror=lambda _: None):
    if not found.ispkg:
        continue
    try:
        package = importlib.import_module(found.name)
    except MissingPackageError as missing:  # an adapter is a package of its host's types
        if "[hosts]" in str(missing):
            raise
        without += 1
        continue
    for name in getattr(package, "__all__", ()):
        try:
            getattr(package, name)
            loaded += 1
        except ImportError as missing:  # a host that is not installed; nothing of ours may miss
            ours = (missing.name or "").startswith("rehydrate")
            if ours and not isinstance(missing, MissingPackageError):
                raise
            if ours and "[hosts]" in str(missing):
                raise
            without += 1
print(f"{loaded} names load, {without} need a host")
sys.exit(loaded < int(sys.argv[1]))
"""
"""Loads every public name of every package."""

REFUSED = """
from rehydrate.errors import MissingPackageError
for module, extra in (
    *(("testing", "lab"), ("linting", "lab")),
    *(("integrations.litellm", "hosts"), ("rpc", "hosts"), ("agent.mcp", "mcp")),
):
    try:
        __import__(f"rehydrate.{module}")
    except MissingPackageError as missing:
        assert missing.name == f"rehydrate[{extra}]", missing
    else:
        raise AssertionError(module)
from rehydrate import Memory
try:
    Memory.open("postgresql://127.0.0.1:1/none")
except MissingPackageError as missing:
    assert missing.name == "rehydrate[postgres]", missing
"""

SCRIPTED = """
from rehydrate import Context, Interpreter
from rehydrate.testing import ScriptedModel, call
model = ScriptedModel([call("request_context", query="berth"), "Berth 4."])
print(Interpreter(model).run(Context(), "Which berth is free?").answer)
"""

AGENT = """
from rehydrate.agent import Telemetry, model_of
from rehydrate.errors import MissingPackageError
uses = {"openai": lambda: model_of("openai:gpt-5.4"), "telemetry": Telemetry}
for extra, use in uses.items():
    try:
        use()
    except MissingPackageError as missing:
        assert missing.name == f"rehydrate[{extra}]", missing
    else:
        raise AssertionError(f"{extra} is not installed")
"""

NO_SERVER = """
from rehydrate import Memory
from rehydrate.errors import StoreError
try:
    Memory.open("postgresql://127.0.0.1:1/none")
except StoreError as error:
    print(error)
"""

WITHOUT_ONNXRUNTIME = """
from rehydrate import Context, Memory, compact_context
from rehydrate.embedding.onnx import onnxruntime_library
from rehydrate.errors import ModelError
chat = [{"role": "user", "content": f"House {n} is {n} metres high."} for n in range(9)]
kept = compact_context(chat, "house 3", 0.5).stats
assert kept.embedding and kept.changed and not kept.degraded, kept
with Memory.open("berths.db", namespace="alice") as memory:
    memory.add("Berth 4 is free from noon on.")
    assert "Berth 4" in str(Context(memory).prompt("Which berth is free?").request)
try:
    onnxruntime_library()
except ModelError as error:
    assert "pip install onnxruntime" in error.remedy, error
else:
    raise AssertionError("onnxruntime is still there")
"""
"""A program that a wheel without onnxruntime must run."""

RPC = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'


class Environment:
    """A fresh environment in a folder, with nothing of the checkout on its path."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        """Make it."""
        venv.create(folder / "env", with_pip=True)
        scripts = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        self._python, self._command = str(scripts / "python"), str(scripts / "rehydrate")
        self._folder, self._wheels = folder, wheels

    def install(self, name: str, *options: str, extra: str = "") -> None:
        """Install the wheel of a distribution, with what an extra of it brings."""
        (wheel,) = self._wheels.glob(f"{name}-*.whl")
        self._run([self._python, "-m", "pip", "install", "-q", *options, f"{wheel}{extra}"])

    def uninstall(self, name: str) -> None:
        """Take a distribution out."""
        self._run([self._python, "-m", "pip", "uninstall", "-q", "-y", name])

    def script(self, text: str, *arguments: str) -> None:
        """Run a script."""
        self._run([self._python, "-I", "-c", text, *arguments])

    def example(self, name: str) -> None:
        """Run a script of examples/."""
        self._run([self._python, "-I", str(ROOT / "examples" / name)])

    def command(self, *arguments: str, given: bytes = b"", code: int = 0, says: str = "") -> None:
        """Run the command line."""
        self._run([self._command, *arguments], given, code, says)

    def files(self) -> set[str]:
        """Return the files of the package."""
        (package,) = (self._folder / "env").rglob("site-packages/rehydrate")
        return {str(file) for file in package.rglob("*") if "__pycache__" not in file.parts}

    def _run(
        self, command: Sequence[str], given: bytes = b"", code: int = 0, says: str = ""
    ) -> None:
        done = subprocess.run(
            command,
            input=given,
            cwd=self._folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self._folder), "PYTHONUTF8": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        shown = done.stdout.decode(errors="replace")
        if done.returncode != code or says not in shown:
            print(shown, file=sys.stderr)
            wanted = f"code {code}" + (f" and {says!r}" if says else "")
            raise SystemExit(f"{' '.join(command)[:200]}: code {done.returncode}, wanted {wanted}")


def core(env: Environment) -> None:
    """Use the core where nothing else is."""
    env.command("doctor")
    env.command("--help", says="not installed: pip install 'rehydrate[lab]'")
    env.command("eval", SESSION, "--json", code=2, says="rehydrate[lab]")
    env.command("lint", SESSION, code=2, says="rehydrate[lab]")
    env.command("mcp", code=2, says="rehydrate[hosts]")
    env.command("compact", SESSION, "--html", "page.html", code=2, says="rehydrate[lab]")
    env.command("compact", SESSION, "-o", "small.jsonl")
    env.script(NAMES, "150")
    env.script(REFUSED)


def hosts(env: Environment) -> None:
    """Use JSON-RPC and the hooks, which need no host's own package."""
    env.command("rpc", given=RPC, says="compact_context")
    env.script(AGENT)
    env.command("claude", "status", code=1, says="hooks: none")
    env.command("claude", "install", "--yes")
    env.command("claude", "status", says="a hook works: yes")


def lab(env: Environment) -> None:
    """Measure and lint the example, write its pages, run a scripted model and `make demo`."""
    env.command("eval", SESSION, "--json", "--cuts", "3", "--ratios", "0.4")
    env.command("lint", SESSION, "--fail-on", "never", says="findings")
    env.command("inspect", SESSION, "-o", "prompt.html")
    env.command("compact", SESSION, "--html", "page.html")
    env.script(SCRIPTED)
    env.install(CORE, extra="[tools]")
    env.example("ask_back.py")


def postgres(env: Environment) -> None:
    """Open a server that is not there."""
    env.script(NO_SERVER)


USES: dict[str, Callable[[Environment], None]] = {
    "rehydrate_hosts": hosts,
    "rehydrate_lab": lab,
    "rehydrate_postgres": postgres,
}


def main(wheels: Path) -> None:
    """Install and use each; leaves with the first command that fails."""
    with tempfile.TemporaryDirectory(prefix="rehydrate-") as folder:
        env = Environment(Path(folder), wheels)
        env.install(CORE)
        core(env)
        env.uninstall("onnxruntime")  # all that follows works without it
        env.script(WITHOUT_ONNXRUNTIME)
        before = env.files()
        print(f"{CORE}: works alone")
        for name in OTHERS:
            env.install(name)
            env.command("doctor", says=f"{name.removeprefix('rehydrate_')} ")
            env.script(NAMES, "150")
            USES[name](env)
            env.uninstall(name.replace("_", "-"))
            if env.files() != before:
                raise SystemExit(f"{name}: what is left after it differs: {env.files() ^ before}")
            print(f"{name}: works next to the core alone, and leaves it as it was")
        env.command("doctor")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
