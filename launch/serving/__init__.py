"""The command `rankmesh serve`: its options as settings of a server and its models."""
