"""What decides: pure functions from a request and the facts to an answer. No clock, no loop, no client, no log."""
