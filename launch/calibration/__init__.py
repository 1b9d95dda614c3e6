"""The command `rankmesh calibrate`: measures what plans of slices cost on this host."""
