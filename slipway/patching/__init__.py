"""Patches: the series that users keep, and whether each still applies to a release. The applying is an agent's."""
