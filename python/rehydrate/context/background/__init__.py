"""Summaries that nobody waits for: written in the background, verified, swapped in between turns.

writers       who writes: the context store by itself, a model, a function
verification  what a summary must hold and must not be
swapping      which entries it replaces, and the prompt's IR after that
completion    how a model is asked for a text
proposer      what a fast model proposes for the context store, after each turn
compactor     one job at a time for one thread: started, ready, swapped or discarded
history       compact_history: the same for a list of messages, at once
"""
