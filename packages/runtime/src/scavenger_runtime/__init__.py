"""Informer, work queue, election, probes, settings and logging for Kubernetes services on asyncio."""
