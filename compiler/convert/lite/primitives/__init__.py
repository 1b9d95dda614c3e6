"""Primitives: turn those of MindIR into those of .ms files, one module for each family."""
