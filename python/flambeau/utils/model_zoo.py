"""The older name of functions of `flambeau.hub`."""
from ..hub import load_state_dict_from_url as load_url  # noqa: F401
from ..hub import tqdm  # noqa: F401
