"""Role status."""
