"""Arrays: the lifecycle of many independent tasks in one ScavengerJob (docs/designs/0023-arrays.md)."""
