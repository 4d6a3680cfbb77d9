# Made by scripts/stubs.

from . import channel as channel, collate as collate, fetch as fetch, pin_memory as pin_memory, worker as worker
