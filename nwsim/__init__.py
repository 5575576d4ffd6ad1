"""Simulation studies of attention as Nadaraya-Watson regression."""
