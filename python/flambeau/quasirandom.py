"""Sobol sequences: points that fill the unit cube more evenly than random ones do.

The direction numbers are those of S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional
projections", SIAM J. Sci. Comput. 30 (2008), file new-joe-kuo-6.21201. `_sobol_directions.bin` has them compressed by
zlib: for each degree s from 1 to 18 the rows (polynomial, m_1, ..., m_s) of its dimensions, transposed, as the planes
of their low, middle and high bytes.
"""
from __future__ import annotations

import flambeau

_POLYNOMIALS_OF_DEGREE = (1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630, 756, 1800, 2048, 7710, 7776)


def _rows_by_degree():
    """Per degree s the table (s + 1, polynomials): the polynomial's bits, then m_1 to m_s."""
    import zlib
    from pathlib import Path

    packed = Path(__file__).with_name("_sobol_directions.bin").read_bytes()
    planes = flambeau.frombuffer(bytearray(zlib.decompress(packed)), dtype=flambeau.uint8).long()
    start = 0
    for degree, count in enumerate(_POLYNOMIALS_OF_DEGREE, 1):
        size = (degree + 1) * count
        low, middle, high = planes[start : start + 3 * size].view(3, degree + 1, count)
        yield low + (middle << 8) + (high << 16)
        start += 3 * size


def _direction_numbers(dimension, bits):
    """The first dimensions' direction numbers, (dimension, bits), each an integer of that many bits."""
    parts = [flambeau.ones(1, bits, dtype=flambeau.long)]
    missing = dimension - 1
    for degree, rows in enumerate(_rows_by_degree() if missing else (), 1):
        polynomial, *numbers = rows[:, :missing].unbind()
        for _ in range(degree, bits):
            new = numbers[-degree] ^ (numbers[-degree] << degree)
            for back in range(1, degree):
                new = new ^ ((numbers[-back] << back) * ((polynomial >> (degree - back)) & 1))
            numbers.append(new)
        parts.append(flambeau.stack(numbers, 1))
        missing -= len(polynomial)
        if not missing:
            break
    return flambeau.cat(parts) << flambeau.arange(bits - 1, -1, -1)


class SobolEngine:
    """Draws points (n, dimension) of a Sobol sequence; scrambled are its matrices, and all points are shifted."""

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension, scramble=False, seed=None):
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        cpu = flambeau.device("cpu")
        with cpu:
            self.sobolstate = _direction_numbers(dimension, self.MAXBIT)
            self.shift = flambeau.zeros(dimension, dtype=flambeau.long)
            if scramble:
                self._scramble()
        self.quasi = self.shift.clone(memory_format=flambeau.contiguous_format)
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: flambeau.Tensor | None = None, dtype: flambeau.dtype | None = None):
        """The next n points, (n, dimension)."""
        dtype = flambeau.get_default_dtype() if dtype is None else dtype
        if self.num_generated == 0 and n == 1:
            result = self._first_point.to(dtype)
        else:
            if dtype not in (flambeau.float32, flambeau.float64):
                from ._typed import _BY_DTYPE

                raise NotImplementedError(f"\"_sobol_engine_draw\" not implemented for '{_BY_DTYPE.get(dtype, dtype)}'")
            points = self._points(self.num_generated, n)
            result = points.to(dtype) * 2.0**-self.MAXBIT
            if n:
                self.quasi = points[-1].clone()
        self.num_generated += n
        if out is not None:
            return out.resize_as_(result).copy_(result)
        return result

    def draw_base2(self, m: int, out: flambeau.Tensor | None = None, dtype: flambeau.dtype | None = None):
        """The next 2**m points, (2**m, dimension); all points drawn so far must then be a power of two."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1) != 0:
            before = self.num_generated
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{before} points have been previously generated, then: n={before}+2**{m}={total}. "
                "If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self):
        """The next point is the first again."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n):
        """Skips n points."""
        self.num_generated += n
        if self.num_generated:
            self.quasi.copy_(self._points(self.num_generated - 1, 1)[0])
        return self

    def _points(self, start, n):
        """Points start to start + n as integers, (n, dimension).

        A point is linear, over bits, in its number: the high and the low half of a number give two small tables of
        which every point is one sum. (Bit j of a number is in bits j and j - 1 of its Gray code.)
        """
        if n <= 0:
            return flambeau.empty(n - (start == 0), self.dimension, dtype=flambeau.long)
        end = start + n
        if end > 2**self.MAXBIT:
            raise ValueError(f"A Sobol sequence has at most 2**{self.MAXBIT} points, got {end}")
        columns = self.sobolstate.t().clone()
        columns[1:] ^= self.sobolstate.t()[:-1]
        low_bits = (n.bit_length() + 1) // 2
        low = self.shift.repeat(1, 1)
        for bit in range(low_bits):
            low = flambeau.cat([low, low ^ columns[bit]])
        block = 1 << low_bits
        first_block = start >> low_bits
        numbers = flambeau.arange(first_block, ((end - 1) >> low_bits) + 1)
        high = flambeau.zeros(len(numbers), self.dimension, dtype=flambeau.long)
        for bit in range(self.MAXBIT - low_bits):
            if end >> (low_bits + bit):
                high ^= ((numbers >> bit) & 1).unsqueeze(1) * columns[low_bits + bit]
        points = (high.unsqueeze(1) ^ low).flatten(0, 1)
        return points[start - first_block * block : end - first_block * block]

    def _scramble(self):
        generator = None
        if self.seed is not None:
            generator = flambeau.Generator()
            generator.manual_seed(self.seed)
        bits = self.MAXBIT
        weights = 1 << flambeau.arange(bits)
        self.shift = flambeau.randint(2, (self.dimension, bits), generator=generator) @ weights
        lower = flambeau.randint(2, (self.dimension, bits, bits), generator=generator).tril()
        lower.diagonal(dim1=1, dim2=2).fill_(1)
        # Bits from the most significant on: (dimension, bit, column).
        digits = (self.sobolstate.unsqueeze(1) >> flambeau.arange(bits - 1, -1, -1).unsqueeze(1)) & 1
        mixed = (lower @ digits) & 1
        self.sobolstate = (mixed * weights.flip(0).unsqueeze(1)).sum(1)

    def __repr__(self):
        text = [f"dimension={self.dimension}"]
        if self.scramble:
            text.append("scramble=True")
        if self.seed is not None:
            text.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(text)})"
