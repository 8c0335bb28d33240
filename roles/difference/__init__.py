"""Role difference."""
