"""Adapters: one file, one port, one technology. Named in `pipeline.bootstrap` and nowhere else."""
