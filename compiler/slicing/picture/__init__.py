"""Pictures of plans: the graph as SVG, coloured by placement."""
