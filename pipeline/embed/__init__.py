"""Sparse encoding, and the batching of dense models. Pure: dense vectors themselves come through a port."""
