"""Role checkpoint."""
