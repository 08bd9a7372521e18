"""Passes: each a pure function from one PromptIR to the next."""
