"""Pages of docs/reference that are made from the code they describe.

A module here is a page: PATH, below the checkout, and text(), its content.
"""
