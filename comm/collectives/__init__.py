"""Collectives between ranks: backends and their registry, and tracking of what ranks do."""
