"""The launcher: the command line, and the start and supervision of ranks."""
