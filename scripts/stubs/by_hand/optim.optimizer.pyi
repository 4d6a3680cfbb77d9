_T = TypeVar("_T")
ParamsT = Union[Iterable[Tensor], Iterable[dict[str, Any]], Iterable[tuple[str, Tensor]]]
params_t = ParamsT

class Optimizer:
    defaults: dict[str, Any]
    state: dict[Any, Any]
    param_groups: list[dict[str, Any]]
    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None: ...
    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], _T]) -> _T: ...

class PerParameter(Optimizer):
    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], _T]) -> _T: ...
