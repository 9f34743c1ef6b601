"""What is shown of runs: a table, JSON, a page with charts. Pure: the same runs give the same bytes."""
