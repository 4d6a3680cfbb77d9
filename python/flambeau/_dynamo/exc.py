"""The tracer's exceptions, which programs catch. `compile` raises InvalidBackend, nothing raises the others."""

__all__ = ["TorchDynamoException", "InternalTorchDynamoError", "Unsupported", "ResetRequired", "BackendCompilerFailed",
           "InvalidBackend", "RecompileError", "FailOnRecompileLimitHit", "UserError", "TorchRuntimeError"]  # fmt: skip


class TorchDynamoException(RuntimeError):
    """Any of the tracer's errors."""


class InternalTorchDynamoError(TorchDynamoException):
    """An error of the tracer itself."""


class InvalidBackend(TorchDynamoException):
    """No compiler has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available backends.")


class ResetRequired(TorchDynamoException):
    """The tracer's state has to be cleared first."""


class BackendCompilerFailed(TorchDynamoException):
    """A compiler raised."""


class Unsupported(TorchDynamoException):
    """Something that cannot be traced."""


class RecompileError(TorchDynamoException):
    """A function was compiled again where that was forbidden."""


class FailOnRecompileLimitHit(Exception):
    """A function was compiled again too often."""


class UserError(Unsupported):
    """The program's own mistake."""


class TorchRuntimeError(TorchDynamoException):
    """An operator raised while it was traced."""
