"""What the program can be asked to do, and how it is asked."""
