"""Names of PyTorch's tools for smaller models. Quantisation is not part of Flambeau."""
