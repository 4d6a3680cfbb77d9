from .module import Module
from ..utils.rnn import PackedSequence

class RNNBase(Module):
    mode: str
    input_size: _int
    hidden_size: _int
    num_layers: _int
    bias: _bool
    batch_first: _bool
    dropout: _float
    bidirectional: _bool
    proj_size: _int

class RNN(RNNBase):
    def __init__(self, input_size: _int, hidden_size: _int, num_layers: _int = 1, nonlinearity: str = "tanh", bias: _bool = True, batch_first: _bool = False, dropout: _float = 0.0, bidirectional: _bool = False, device: _Device | None = None, dtype: _dtype | None = None) -> None: ...
    @overload
    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(self, input: PackedSequence, hx: Tensor | None = None) -> tuple[PackedSequence, Tensor]: ...

class GRU(RNNBase):
    def __init__(self, input_size: _int, hidden_size: _int, num_layers: _int = 1, bias: _bool = True, batch_first: _bool = False, dropout: _float = 0.0, bidirectional: _bool = False, device: _Device | None = None, dtype: _dtype | None = None) -> None: ...
    @overload
    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(self, input: PackedSequence, hx: Tensor | None = None) -> tuple[PackedSequence, Tensor]: ...

class LSTM(RNNBase):
    def __init__(self, input_size: _int, hidden_size: _int, num_layers: _int = 1, bias: _bool = True, batch_first: _bool = False, dropout: _float = 0.0, bidirectional: _bool = False, proj_size: _int = 0, device: _Device | None = None, dtype: _dtype | None = None) -> None: ...
    @overload
    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...
    @overload
    def forward(self, input: PackedSequence, hx: tuple[Tensor, Tensor] | None = None) -> tuple[PackedSequence, tuple[Tensor, Tensor]]: ...

class LSTMCell(RNNCellBase):
    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]: ...
