"""Where PyTorch keeps the parts of `utils.benchmark`."""
