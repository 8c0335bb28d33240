"""Role engine."""
