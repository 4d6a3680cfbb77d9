"""What PyTorch's compiler asks of numbers. Numbers are plain here."""
