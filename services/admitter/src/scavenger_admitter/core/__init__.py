"""What the admitter decides: pure functions of plain values, without clock, loop, client or log."""
