"""Passes: each is a pure function from one PromptIR to the next."""

from __future__ import annotations
