"""The imperative shell: one folder a role, and the transport they all share."""
