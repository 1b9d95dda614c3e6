"""Search: chooses a strategy for each node, by a solver or a greedy search."""
