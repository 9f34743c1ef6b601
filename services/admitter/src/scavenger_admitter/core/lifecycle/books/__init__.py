"""Where verdicts are recorded: one run of a job or a gang, or many tasks of an array."""
