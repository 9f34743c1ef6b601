"""What decides: pure functions from a snapshot to a plan. No clock, no loop, no client, no log."""
