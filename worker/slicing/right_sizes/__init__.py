"""Right sizes: the sizes of open dimensions that are the only ones a model runs with."""
