"""Context managers that are decorators too, for functions, coroutines, generators and classes."""
import functools
import warnings

__all__ = ["context_decorator", "_DecoratorContextManager", "_NoParamDecoratorContextManager"]


def _makes_generators(func):
    """Whether calling it gives a generator, also through partial objects."""
    while isinstance(func, functools.partial):
        func = func.func
    code = getattr(func, "__code__", None)
    return code is not None and bool(code.co_flags & 0x20)


def _wrap_generator(make, func):
    """A generator function that holds the context only while the generator itself runs, not while it waits."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        generator = func(*args, **kwargs)
        resume, value = generator.send, None
        try:
            while True:
                try:
                    with make():
                        response = resume(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    value = yield response
                    resume = generator.send
                except GeneratorExit:
                    with make():
                        generator.close()
                    raise
                except BaseException as error:
                    resume, value = generator.throw, error
        finally:
            with make():
                generator.close()

    return wrapper


def context_decorator(ctx, func):
    """`func` run inside a context; `ctx` is a context manager or a function that makes one for each call."""
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(
            f"Passed in {ctx} is both callable and also a valid context manager (has __enter__), making it ambiguous "
            "which interface to use.  If you intended to pass a context manager factory, rewrite your call as "
            "context_decorator(lambda: ctx()); if you intended to pass a context manager directly, rewrite your call "
            "as context_decorator(lambda: ctx)"
        )
    make = ctx if callable(ctx) else lambda: ctx
    if isinstance(func, type):
        raise RuntimeError(
            "Cannot decorate classes; it is ambiguous whether or not only the constructor or all methods should have "
            "the context manager applied; additionally, decorating a class at definition-site will prevent use of the "
            "identifier as a conventional type.  To specify which methods to decorate, decorate each of them "
            "individually."
        )
    if _makes_generators(func):
        return _wrap_generator(make, func)

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        with make():
            return func(*args, **kwargs)

    return wrapper


class _DecoratorContextManager:
    """A context manager that can stand before a function; each call enters a fresh clone."""

    def __call__(self, orig_func):
        if isinstance(orig_func, type):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
                "the `__init__` method and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
            make = orig_func
            return functools.wraps(make, updated=())(lambda *args, **kwargs: self._run(make, args, kwargs))
        return context_decorator(self.clone, orig_func)

    def _run(self, func, args, kwargs):
        with self.clone():
            return func(*args, **kwargs)

    def __enter__(self):
        raise NotImplementedError

    def __exit__(self, exc_type, exc_value, traceback):
        raise NotImplementedError

    def clone(self):
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One that takes no parameters, so that it decorates without parentheses as well."""

    def __new__(cls, orig_func=None):
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)
