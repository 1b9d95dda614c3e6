"""Transfer of model files: a host fetches those that it lacks, by digest, over a channel."""
