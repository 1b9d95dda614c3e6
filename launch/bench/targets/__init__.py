"""Targets of a bench: servers over REST and gRPC, and orchestrators of this process."""
