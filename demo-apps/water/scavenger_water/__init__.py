"""What programs have in common that measure density and self-diffusion of water: configuration, results, ends."""
