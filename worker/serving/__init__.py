"""A rank of an orchestrator: its loop, its model, the model's update."""
