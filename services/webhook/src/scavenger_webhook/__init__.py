"""Admission: every regular pod outranks scavenger jobs, and no bad job gets in."""
