"""The JIT: the model asks for what is missing, and gets it in the middle of the turn."""
