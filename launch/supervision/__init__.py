"""Supervision of the ranks of one host: start, relay, failure, end."""
