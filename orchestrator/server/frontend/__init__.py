"""Frontend of a server: its settings, and both protocols of one process."""
