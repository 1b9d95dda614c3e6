"""The command `rankmesh bench`: its targets, its load, its figures and reports."""
