"""The command `rankmesh slice`: its options, its progress bar and its reports."""
