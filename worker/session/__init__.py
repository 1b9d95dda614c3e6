"""Sessions: a model built for one device and for the input shapes chosen now."""
