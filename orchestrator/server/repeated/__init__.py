"""Repeated requests: those that came before in all but their tensors, whichever the protocol."""
