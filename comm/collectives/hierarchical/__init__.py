"""Hierarchical backend: collectives of several hosts, by shared memory within each of them."""
