"""Rank tables: parses, checks, makes and merges them, without the rest of the package."""
