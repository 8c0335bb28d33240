"""Results of sweeps: reading them strictly, comparing them honestly, and reporting. Pure: files in, text out."""
