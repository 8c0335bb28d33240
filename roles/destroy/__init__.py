"""Role destroy."""
