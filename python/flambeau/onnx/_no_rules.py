"""What stands for the rules of an opset for writing operators to ONNX."""

__all__ = ["rules_of"]


def rules_of(module):
    """The `__getattr__` of a module whose rules can be named, and not called: NotImplementedError says why."""

    def find(name):
        if name.startswith("__"):
            raise AttributeError(f"module '{module}' has no attribute '{name}'")

        def rule(*args, **kwargs):
            raise NotImplementedError(f"{module}.{name}: Flambeau does not write ONNX models")

        rule.__name__ = name
        return rule

    return find
