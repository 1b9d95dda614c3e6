"""Decides which rank does what, and supervises the ranks."""
