"""Agents: the ranks of an orchestrator on other hosts, and the processes that start them there."""
