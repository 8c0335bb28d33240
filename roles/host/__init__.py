"""Role host."""
