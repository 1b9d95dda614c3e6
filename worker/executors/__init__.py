"""What runs one segment of a plan."""
