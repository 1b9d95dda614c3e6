"""Source graphs: the model that is sliced, with the dimensions of its values."""
