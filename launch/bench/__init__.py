"""The command `rankmesh bench`: its load, its figures and reports."""
