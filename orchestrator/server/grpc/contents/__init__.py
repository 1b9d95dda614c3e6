"""Contents of requests: tensors that stand in a message, and bounds of what is decoded of it."""
