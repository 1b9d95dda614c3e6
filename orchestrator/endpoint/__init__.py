"""Endpoint of an orchestrator: programs of its user send requests there, through shared memory."""
