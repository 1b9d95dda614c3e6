"""Forwarding: the requests of server processes that the process of the orchestrator answers."""
