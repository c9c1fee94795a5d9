"""Several processes behind one address: a parent that serves nothing itself, and workers that do nothing else."""
