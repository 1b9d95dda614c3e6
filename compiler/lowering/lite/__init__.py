"""Lite primitives: the lowerings of those of .ms files, one module for each family."""
