"""Role profile."""
