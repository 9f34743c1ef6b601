"""Draws the levels, publishes the preemptible percentage, evicts exactly as much as needed."""
