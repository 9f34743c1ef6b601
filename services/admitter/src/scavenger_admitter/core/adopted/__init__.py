"""Jobs of batch/v1 that users created: what the lifecycle reads of one, its pods, and its status."""
