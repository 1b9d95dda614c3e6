"""Observation of requests: collects what is known of each, and writes the access log."""
