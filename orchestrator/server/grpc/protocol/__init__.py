"""Protocol messages of gRPC: their definitions, and their classes in a private pool."""
