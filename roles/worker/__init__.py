"""Role worker."""
