"""Reconciles ScavengerJobs: who starts, and what an ending means."""
