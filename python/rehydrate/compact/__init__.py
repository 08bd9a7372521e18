"""Compaction: fewer messages, none of them rewritten."""
