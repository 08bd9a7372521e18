"""Without LangChain's agents, the rest of rehydrate.integrations.langchain is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

SCRIPT = """
import sys
sys.modules["langchain"] = sys.modules["langgraph"] = None
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from rehydrate.integrations import langchain
from rehydrate.integrations.langchain import ChatModelWriter, ExtractiveSummarizer, RehydrateEdit
assert "Always use tabs." in ExtractiveSummarizer()([HumanMessage("Always use tabs.")])
ChatModelWriter(FakeListChatModel(responses=["ok"]))
RehydrateEdit()
try:
    langchain.RehydrateMiddleware
except ImportError as error:
    assert "rehydrate[langchain]" in str(error), error
else:
    sys.exit("it was imported")
assert not hasattr(langchain, "RehydrateMiddlewar")
"""


def test_only_the_middleware_needs_langchain():
    command = [sys.executable, "-W", "error::UserWarning", "-c", SCRIPT]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
