"""Several processes behind one address: a parent that supervises, and workers that serve."""
