"""Processes of ranks: their start, their output, their end."""
