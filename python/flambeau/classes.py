"""Custom classes of C++ libraries: there are none."""
loaded_libraries = set()


class _Namespace:
    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(f"Tried to instantiate class '{self._name}.{name}', but it does not exist! "
                           "Ensure that it is registered via torch::class_")


def load_library(path):
    raise OSError(f"Could not load this library: {path}")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'flambeau.classes' has no attribute '{name}'")
    return _Namespace(name)
