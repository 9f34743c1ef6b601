"""What is tried, with how much, and what an ending means: pure functions of values."""
