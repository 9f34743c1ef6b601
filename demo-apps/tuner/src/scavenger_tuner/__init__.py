"""Turns molecular-dynamics configurations in a database into ScavengerJobs, and tries smaller ones that fail."""
