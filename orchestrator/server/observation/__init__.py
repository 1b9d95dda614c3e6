"""Observation of a server: the access log, traces and metrics of its requests, models and ranks."""
