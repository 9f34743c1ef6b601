"""An MPI program as a gang of pods: Open MPI starts its daemons through an agent in each pod, and not through ssh."""
