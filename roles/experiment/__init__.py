"""Role experiment."""
