"""Queues between processes, which hand tensors on."""
from multiprocessing.queues import Queue, SimpleQueue

__all__ = ["Queue", "SimpleQueue"]
