"""Role router."""
