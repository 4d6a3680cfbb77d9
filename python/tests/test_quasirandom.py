"""Sobol sequences: recorded points, and what every such sequence has."""
import pickle

import pytest

import flambeau
from flambeau.quasirandom import SobolEngine


def test_first_points_and_the_state_after_them():
    engine = SobolEngine(3)
    assert engine.draw(4).tolist() == [[0, 0, 0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75]]
    assert engine.draw(2).tolist() == [[0.375, 0.375, 0.625], [0.875, 0.875, 0.125]]
    assert engine.num_generated == 6
    assert engine.quasi.tolist() == [939524096, 939524096, 134217728]
    assert repr(engine) == "SobolEngine(dimension=3)"


def test_scrambled_points():
    engine = SobolEngine(3, scramble=True, seed=7)
    assert engine.shift.tolist() == [214182645, 183537049, 804615878]
    assert engine.sobolstate[:, :3].tolist() == [
        [545853173, 438452617, 257908810], [662285411, 1065302244, 766938834], [816589273, 758585655, 346029292]]  # fmt: skip
    expected = flambeau.tensor([[0.1995, 0.1709, 0.7494], [0.6922, 0.7115, 0.4898], [0.8505, 0.2963, 0.7880]])
    flambeau.testing.assert_close(engine.draw(3), expected, rtol=0, atol=6e-5)
    assert repr(engine) == "SobolEngine(dimension=3, scramble=True, seed=7)"


@pytest.mark.parametrize("options", [{}, {"scramble": True, "seed": 3}])
def test_pieces_give_what_one_draw_gives(options):
    whole = SobolEngine(5, **options).draw(100)
    engine = SobolEngine(5, **options)
    assert flambeau.equal(flambeau.cat([engine.draw(n) for n in (1, 1, 7, 30, 61)]), whole)
    assert flambeau.equal(engine.reset().draw(20), whole[:20])
    assert flambeau.equal(engine.fast_forward(13).draw(9), whole[33:42])
    assert flambeau.equal(pickle.loads(pickle.dumps(engine)).draw(5), whole[42:47])


def test_every_dimension_is_a_permutation_of_the_grid():
    """Of 2**m points each of 2**m intervals of every dimension has one, in the highest dimension too."""
    engine = SobolEngine(SobolEngine.MAXDIM)
    last = SobolEngine(SobolEngine.MAXDIM, scramble=False)
    assert engine.sobolstate.shape == (21201, 30)
    assert engine.sobolstate[-1, :4].tolist() == last.sobolstate[-1, :4].tolist()
    columns = engine.draw(64, dtype=flambeau.float64)[:, [0, 1, 50, 1000, 21200]]
    assert flambeau.equal((columns * 64).floor().sort(0).values, flambeau.arange(64.0).double()[:, None].expand(64, 5))


def test_arguments():
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match=r"Supported range of dimensionality for SobolEngine is \[1, 21201\]"):
            SobolEngine(dimension)
    engine = SobolEngine(2)
    assert engine.draw(2, dtype=flambeau.float64).dtype is flambeau.float64
    out = flambeau.empty(5)
    assert engine.draw(1, out=out) is out and out.shape == (1, 2)
    with pytest.raises(ValueError, match=r"n=3\+2\*\*2=7\. If you still want to do this, please use 'SobolEngine.draw"):
        engine.draw_base2(2)
    assert engine.reset().draw_base2(2).shape == (4, 2)
    with pytest.raises(NotImplementedError, match="\"_sobol_engine_draw\" not implemented for 'Half'"):
        engine.draw(2, dtype=flambeau.float16)
    with pytest.raises(RuntimeError, match="negative dimension"):
        engine.draw(-1)
