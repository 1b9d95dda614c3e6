"""Peer backend: AllReduce of small tensors by kernels that read the memory of other ranks' GPUs."""
