"""A replica: the ranks that together run one copy of a model, from their start to their end."""
