"""What PyTorch's compiler asks of numbers. Numbers are plain here."""


def __getattr__(name):
    if name in ("proxy_tensor", "symbolic_shapes"):  # imported when first used
        import importlib

        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'torch.fx.experimental' has no attribute '{name}'")
