"""Life of a server: its start with its models, and its end by a signal."""
