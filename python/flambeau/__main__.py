"""Runs a program written for PyTorch: `python -m flambeau script.py ...`, `-m module ...` or `-c code ...`."""
import sys

_USAGE = """usage: python -m flambeau [-h] [--version] (script.py | directory | -m module | -c code | -) [arguments ...]

Runs a Python program in which `import torch` gives Flambeau."""


def _run_code(code, name="<string>"):
    """Code as the main module, as Python's -c does."""
    main = sys.modules["__main__"]
    space = main.__dict__
    for key in ("__file__", "__cached__", "__doc__"):
        space.pop(key, None)
    space.update(__name__="__main__", __spec__=None, __package__=None, __loader__=None)
    exec(compile(code, name, "exec"), space)


def _run_file(path):
    """A file (or a folder or archive with a `__main__.py`) as the main module.

    A file's names stay in `sys.modules['__main__']`, so that its classes can be pickled.
    """
    import os

    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        import runpy

        sys.path[0] = path
        runpy.run_path(path, run_name="__main__")
        return
    import io

    sys.path[0] = os.path.dirname(os.path.realpath(path))
    with io.open_code(os.path.abspath(path)) as file:
        code = file.read()
    from importlib.machinery import SourceFileLoader

    space = sys.modules["__main__"].__dict__
    space.update(__name__="__main__", __file__=path, __spec__=None, __package__=None, __doc__=None, __cached__=None,
                 __loader__=SourceFileLoader("__main__", path))  # fmt: skip
    exec(compile(code, path, "exec"), space)


def main(arguments):
    """What the command line asks for."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        from flambeau import __version__

        print(f"Flambeau, with the interface of PyTorch {__version__}")
        return 0
    from flambeau.as_torch import Arguments

    kind, rest = arguments[0], arguments[1:]
    if kind in ("-m", "-c") and not rest:
        print(f"Argument expected for the {kind} option\n{_USAGE}", file=sys.stderr)
        return 2
    if kind == "-m":
        import runpy

        sys.argv = Arguments(rest)
        sys.path[0] = ""
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = Arguments(["-c", *rest[1:]])
        sys.path[0] = ""
        _run_code(rest[0])
    elif kind == "-":
        sys.argv = Arguments(arguments)
        sys.path[0] = ""
        _run_code(sys.stdin.read(), "<stdin>")
    elif kind.startswith("-"):
        print(f"unknown option {kind}\n{_USAGE}", file=sys.stderr)
        return 2
    else:
        sys.argv = Arguments(arguments)
        _run_file(kind)
    return 0


if __name__ == "__main__":
    _status = main(sys.argv[1:])
    if _status:
        sys.exit(_status)
