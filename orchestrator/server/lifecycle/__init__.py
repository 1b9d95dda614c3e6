"""Life of a server: its settings, its start with its models, and its end by a signal."""
