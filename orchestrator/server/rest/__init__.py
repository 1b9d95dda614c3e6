"""The REST form of the Open Inference Protocol: its paths, messages and tensors."""
