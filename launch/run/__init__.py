"""The command `rankmesh run`: its ranks, its NPZ files, its reports."""
