"""Patterns: several nodes of a graph that torch computes by one call, found and replaced."""
