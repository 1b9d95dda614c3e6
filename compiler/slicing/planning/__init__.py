"""Planning: finds the strategies of all nodes, and predicts what plans cost."""
