"""Stored threads under kill -9: no acknowledged entry is lost, prompts extend what was sent."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from rehydrate.context import Context
from rehydrate.prompt import Budget

BUDGET = Budget(soft_tokens=2_500, hard_tokens=200_000)
KILLS = int(os.environ.get("STRESS_TRIALS", "3"))

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kill -9 is POSIX")


def run(path, seed):
    """Talk until killed; say on standard output what has returned."""
    random_ = random.Random(seed)
    with Context.open(path, thread="t", namespace="n", budget=BUDGET) as context:
        while True:
            number = len(context.history)
            prompt = context.prompt(f"Question {number}: {random_.random()} " + "berth " * 40)
            digests = [each.digest for each in prompt.segments]
            _say(len(context.history), digests, context.usage.compactions)
            context.add({"role": "assistant", "content": f"Answer {number} " + "crane " * 60})
            _say(len(context.history))


def _say(*values):
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def test_nothing_acknowledged_is_lost_and_prompts_extend(tmp_path):
    path = tmp_path / "t.db"
    script = "import sys; from tests.context.test_killed_threads import run; run(*sys.argv[1:])"
    begun = Prompt([], 0)  # what the next process begins with
    for kill in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(path), str(kill)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        first = process.stdout.readline()  # it runs: from here on any moment will do
        time.sleep(random.Random(kill).random() * 0.15)
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
        lines = [json.loads(line) for line in (first + rest).splitlines() if line.endswith("]")]
        acknowledged = max(line[0] for line in lines)
        sent = [begun, *(Prompt(*line[1:]) for line in lines if len(line) > 1)]
        for before, after in pairwise(sent):
            assert after.extends(before)
        with Context.open(path, thread="t", namespace="n", budget=BUDGET) as context:
            assert acknowledged <= len(context.history) <= acknowledged + 1
            for index, entry in enumerate(context.history):
                what, number, *_ = entry["content"].replace(":", "").split()
                assert int(number) == (index if what == "Question" else index - 1)
            length = len(context.history)
            shown = context._thread.state.sent.segments
            begun = Prompt([each.digest for each in shown], context.usage.compactions)
        # Nobody may have heard of the last one.
        assert begun == sent[-1] or (begun.extends(sent[-1]) and length > acknowledged)


class Prompt(NamedTuple):
    digests: list
    compactions: int

    def extends(self, before):
        is_extended = self.digests[: len(before.digests)] == before.digests
        return is_extended or self.compactions == before.compactions + 1
