"""Connections of agents: the messages between an orchestrator and the hosts of its ranks."""
