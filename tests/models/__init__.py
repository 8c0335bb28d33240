"""Tests of the model that ships with the project."""
