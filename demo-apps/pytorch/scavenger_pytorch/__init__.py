"""A training on the CPU that can be interrupted at any moment, alone or as a gang, and comes to the same losses."""
