"""The life of one job: what became of it, its next status and what follows from that."""
