"""Orchestrator: gives requests to supervised ranks, and restarts ranks that fail."""
