"""Role verify."""
