"""The command `rankmesh convert`: its flags, its progress bar and its result."""
