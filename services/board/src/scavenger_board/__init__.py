"""The page for who runs the cluster: what is, what was, and why."""
