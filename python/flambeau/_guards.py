"""The state of PyTorch's tracer. Nothing is traced here, so there is none."""

__all__ = ["CompileContext", "TracingContext", "active_fake_mode", "detect_fake_mode"]


def active_fake_mode():
    """The mode in which tensors only pretend to have data: none."""
    return None


def detect_fake_mode(inputs=None):
    """The same, also of these inputs."""
    return None


class TracingContext:
    """What a trace knows."""

    @staticmethod
    def try_get():
        """That of the trace that runs: none."""
        return None

    @staticmethod
    def get():
        """Raises: no trace runs."""
        raise RuntimeError("TracingContext.get() must be called within an ongoing trace.")


class CompileContext:
    """What a compilation knows."""

    @staticmethod
    def try_get():
        """That of the one that runs: none."""
        return None

    @staticmethod
    def current_compile_id():
        """Its number: none."""
        return None
