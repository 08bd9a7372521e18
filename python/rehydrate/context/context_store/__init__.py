"""The continuous context store: what a thread must not lose, as verbatim spans under five headings.

operations    what items and operations are, and what they add up to
updater       reads a turn by rules; cues: decisions and errors, and what tools do
rendering     the markdown, within a budget, and how it is read back; messages as a model reads them
proposals     what a model would change: how it is asked, how its answer is read, what of it holds
store         ContextStore: all of it for one thread
"""

from rehydrate.context.context_store.rendering import SUMMARY as SUMMARY, lines_in as lines_in
