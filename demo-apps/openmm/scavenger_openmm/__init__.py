"""Self-diffusion and density of water by OpenMM, as a program that can be interrupted at any moment."""
