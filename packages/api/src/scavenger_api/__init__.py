"""The contract of scavenger jobs: types, names, parsing."""
