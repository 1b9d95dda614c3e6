"""Primitives: the lowerings, one module for each family, imported when a model uses one of them."""
