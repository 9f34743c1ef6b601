"""The registry of metrics: what the load is measured of."""
