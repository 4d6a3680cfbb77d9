"""Which version of the interface this is, and what it is built with."""
__all__ = ["__version__", "debug", "cuda", "git_version", "hip", "rocm", "xpu"]

__version__ = "2.13.0"
debug = False
cuda = None
git_version = "unknown"
hip = None
rocm = None
xpu = None
