"""Connections of agents and of ranks on other hosts: their opening, and how they are read."""
