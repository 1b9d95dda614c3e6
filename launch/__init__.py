"""Starts ranks and watches them; the command line."""
