"""Documents of JSON: their tensors, element by element, within bounds of memory and of time."""
