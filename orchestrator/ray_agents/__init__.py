"""Agents of an orchestrator on the hosts of a Ray cluster: Ray places them, and nothing more."""
