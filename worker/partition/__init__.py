"""The partition of a model at its collectives: plans, their checks, their fingerprints."""
