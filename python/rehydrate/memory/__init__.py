"""Memory: what outlives a conversation, kept in one file and found by words and by meaning."""
