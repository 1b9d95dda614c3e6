"""Numbers: arithmetic that torch lacks, or that one of its devices lacks."""
