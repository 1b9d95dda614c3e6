"""Placements of values, strategies of nodes, and the plans that are made of them."""
