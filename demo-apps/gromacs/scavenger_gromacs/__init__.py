"""Self-diffusion and density of water by GROMACS, as a program that can be interrupted at any moment."""
