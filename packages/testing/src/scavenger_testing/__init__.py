"""Builders, fake API server and virtual clock for the tests; never shipped."""
