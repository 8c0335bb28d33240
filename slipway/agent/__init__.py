"""Programs that touch the world: standard library only, Python 3.9 or newer, run on hosts or on the controller."""
