"""kubectl sj: submit, watch and understand scavenger jobs."""
