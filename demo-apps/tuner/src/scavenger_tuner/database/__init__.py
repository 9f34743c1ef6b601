"""The tables of work, in PostgreSQL: what they hold, how they came about, and what is done with them."""
