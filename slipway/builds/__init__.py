"""Builds: what is installed on a host, named by a hash of every input; never changed once complete."""
