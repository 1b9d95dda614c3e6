"""Updates of a served model's weights: from the caller's tensors to the ranks."""
