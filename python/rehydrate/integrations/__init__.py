"""Adapters: Rehydrate inside the agents of others, each in the idiom of its host."""
