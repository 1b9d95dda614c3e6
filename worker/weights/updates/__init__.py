"""Updates of weights: new values from files and tensors, and the names that they give weights."""
