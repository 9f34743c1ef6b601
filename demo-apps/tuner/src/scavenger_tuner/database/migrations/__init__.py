"""How the tables came about, one step after the other."""
