"""Readers that make a Scenario of what others have recorded, or of a seed.

What a record does not say (checkpoints, restarts, memory, real use) is drawn from distributions that can be set, for
each item by its own name: neither the order of reading nor what else is read changes what is drawn.
"""
