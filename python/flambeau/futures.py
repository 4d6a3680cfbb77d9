"""Results that come later."""
from .jit import Future

__all__ = ["Future", "collect_all", "wait_all"]


def collect_all(futures):
    """A future of the list of completed futures."""
    result = Future()
    for f in futures:
        f.wait()
    result.set_result(list(futures))
    return result


def wait_all(futures):
    """The values of all futures; the first error is raised."""
    return [f.wait() for f in futures]
