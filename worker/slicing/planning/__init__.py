"""Planning: finds the strategies of all nodes, and chooses among them."""
