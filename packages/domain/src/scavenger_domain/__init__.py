"""Rules that several parts of scavenger jobs share. Pure functions of plain values; each rule stands here once."""
