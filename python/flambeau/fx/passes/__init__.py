"""Things done to graphs."""
