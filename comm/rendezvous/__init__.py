"""Rendezvous of ranks: connects the ranks of a job, on one host or on several."""
