"""Admission: every ordinary pod outranks scavenger jobs, and no bad job gets in."""
