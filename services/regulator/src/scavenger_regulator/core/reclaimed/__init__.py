"""Reclaimed capacity: what nodes offer of their reserved but idle room, and how their memory is kept safe."""
