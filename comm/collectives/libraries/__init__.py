"""Backends of libraries: collectives by MPI, and by torch.distributed with gloo, nccl or hccl."""
