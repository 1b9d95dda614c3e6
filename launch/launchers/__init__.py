"""Launchers: the ways to start a user's script on every rank."""
