"""The continuous context store: what a thread must not lose, as verbatim spans under five headings.

operations    what items and operations are, and what they add up to
updater       reads a turn by rules; cues: decisions and errors; tool_table: what tools do
rendering     the markdown, within a budget
store         ContextStore: all of it for one thread
"""
