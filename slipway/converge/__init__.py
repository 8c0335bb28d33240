"""Converging: what is wanted on a host compared with what is there, as a list of changes. Pure.

A dry run prints these changes and a real run makes them, so the two cannot differ.
"""
