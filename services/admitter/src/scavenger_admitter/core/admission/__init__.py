"""The admission cycle: who starts now, who has to go for it, and why the others wait."""
