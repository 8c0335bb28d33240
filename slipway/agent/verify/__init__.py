"""The verification ladder: proves from where it runs that what is deployed serves, and serves rightly.

A subject is a mapping: what is asked, and all that its rungs must know of the plan. A rung is a function that takes a
subject and returns what it saw, or raises RungError. Standard library only, Python 3.9+.
"""
