"""The page for cluster administrators: what is, what was, and why."""
