"""Right sizes: the shapes of all values, and the only sizes with which a model runs."""
