"""Sorts running jobs by CPU time since the last checkpoint; the first X percent are preemptible."""
