"""Collective operations between ranks: one protocol, one file per implementation."""
