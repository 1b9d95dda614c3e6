"""Placements: describe how ranks hold values, the strategies of nodes, and plans made of them."""
