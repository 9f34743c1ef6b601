"""Reclaimed capacity: what nodes offer of their reserved but idle capacity, and how their memory is kept safe."""
