"""Role bench: measures a deployment that is proven, under a label, as a detached job."""
