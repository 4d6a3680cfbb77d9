"""What nested tensors are made of: the two layouts and their operators."""
