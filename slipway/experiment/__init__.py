"""Experiments: a baseline and variants that each change one thing, measured in turn and compared. Pure."""
