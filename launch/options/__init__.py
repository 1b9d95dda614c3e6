"""The surroundings of the commands: shared options, the files they name, notices, signals."""
