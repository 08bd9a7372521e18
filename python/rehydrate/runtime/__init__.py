"""The runtime: the loop that runs an agent's turns, and what its model may ask for."""
