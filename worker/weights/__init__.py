"""A model's weights: by name, in memory that processes share, replaced while requests run."""
