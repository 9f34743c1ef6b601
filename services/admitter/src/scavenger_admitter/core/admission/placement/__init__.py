"""Which pods fit on which nodes."""
