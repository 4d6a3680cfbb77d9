# Made by scripts/stubs.

from . import embedding as embedding, graph as graph, summary as summary, writer as writer
from .writer import FileWriter as FileWriter, SummaryWriter as SummaryWriter
