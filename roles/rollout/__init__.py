"""Role rollout."""
