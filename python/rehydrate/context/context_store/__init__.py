"""The continuous context store: what a thread must not lose, as verbatim spans under five headings.

operations    what items and operations are
tools         what tools do, and what their calls are about
transcripts   messages as a model reads them
proposals     what a model would change: how it is asked, how its answer is read
store         ContextStore: all of it for one thread

The engine reads turns by rules, checks proposals and writes the markdown
(`rust/rehydrate-core/src/context_store`).
"""
