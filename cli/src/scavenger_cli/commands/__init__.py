"""The commands: each reads its options, asks or tells the API server, and prints. What they compute is elsewhere."""
