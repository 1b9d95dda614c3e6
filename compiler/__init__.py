"""Models as files and graphs: read, lower, slice, convert."""
