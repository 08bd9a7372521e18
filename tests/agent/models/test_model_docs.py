"""docs/model-clients.md: its figures are those of the code."""

from rehydrate.agent import anthropic
from tests.stress.programs import ROOT

PAGE = (ROOT / "docs" / "model-clients.md").read_text(encoding="utf-8")


def test_its_figures_are_those_of_the_code():
    assert f"{anthropic.MAX_TOKENS:,} unless named" in PAGE
