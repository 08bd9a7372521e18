"""Threads, locks and event loops: how work leaves the event loop and returns to it."""
