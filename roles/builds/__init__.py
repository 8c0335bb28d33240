"""Role builds: what is built on the hosts."""
