"""Hosted ranks: the process of an agent, which starts ranks of an orchestrator on its host."""
