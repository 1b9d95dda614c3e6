"""The process of a rank that the launcher starts: its environment, its run, its report."""
