"""The parts of `nn.functional`, by theme. Import them from `flambeau.nn.functional`."""
