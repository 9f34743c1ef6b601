"""Which jobs go when the load is too high, and what that costs."""
