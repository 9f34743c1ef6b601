"""What the page shows: pure functions from a snapshot to pictures. No clock, no loop, no client, no log."""
