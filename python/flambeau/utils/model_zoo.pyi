# Made by scripts/stubs.

from ..hub import load_url as load_url, tqdm as tqdm
