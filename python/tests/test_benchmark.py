"""`utils.benchmark`: what is measured, and its texts beside PyTorch's."""
import pytest

import flambeau
from flambeau.utils.benchmark import Compare, Measurement, TaskSpec, Timer, select_unit, trim_sigfig

TABLE = """\
[----------- A ------------]
          |   c1   |    c2  
1 threads: -----------------
      r1  |  10.0  |  3000.0
      r2  |  20.0  |        
4 threads: -----------------
      r1  |  10.0  |        

Times are in microseconds (us).

[----- B -----]
         |   y 
1 threads: ----
      z  |  5.0

Times are in seconds (s).
"""  # noqa: W291
MEASURED = """\
lab: sub
desc
  Median: 13.50 us
  IQR:    3.50 us (11.75 to 15.25)
  8 measurements, 10 runs per measurement, 2 threads
  WARNING: Interquartile range is 25.9% of the median measurement.
           This suggests significant environmental influence."""


def measured(label, sub_label, description, seconds, threads=1):
    task = TaskSpec("s", "pass", label=label, sub_label=sub_label, description=description, num_threads=threads)
    return Measurement(1, [seconds, seconds * 1.1, seconds * 0.9], task)


def test_a_measurement():
    task = TaskSpec("f(x)", "pass", label="lab", sub_label="sub", description="desc", num_threads=2)
    m = Measurement(10, [1e-5 * i for i in (10, 11, 12, 13, 14, 15, 16, 30)], task)
    assert str(m).partition("\n")[2] == MEASURED
    assert (m.mean, m.median, m.iqr) == pytest.approx((1.5125e-5, 1.35e-5, 3.5e-6))
    assert m.significant_figures == 1 and m.has_warnings and m.as_row_name == "sub" and m.label == "lab"
    assert len(Measurement.merge([m, Measurement(10, [1e-5], task)])[0].raw_times) == 9
    assert TaskSpec("a\nb", "s\nt").summarize() == "stmt:\n  a\n  b\nsetup:\n  s\n  t\n"
    assert select_unit(3e-5) == ("us", 1e-6) and trim_sigfig(12345.0, 2) == 12000.0


def test_a_comparison():
    results = [measured("A", "r1", "c1", 1e-5), measured("A", "r2", "c1", 2e-5), measured("A", "r1", "c2", 3e-3),
               measured("A", "r1", "c1", 1e-5, 4), measured("B", "z", "y", 5.0)]  # fmt: skip
    table = Compare(results)
    assert str(table) == TABLE
    table.highlight_warnings()
    assert "r1  |  10.0 (! 10%)  |  3000.0\n" in str(table) and "(! XX%) Measurement has high variance" in str(table)
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`, got <class 'int'> instead."):
        table.extend_results([3])


def test_a_timer():
    threads = flambeau.get_num_threads()
    calls = []
    timer = Timer("torch.mm(a, a); calls.append(torch.get_num_threads())", "a = torch.ones(2, 2)", globals={"calls": calls})
    m = timer.timeit(5)
    assert m.number_per_run == 5 and len(m.raw_times) == 1 and len(calls) == 7 and set(calls) == {1}
    assert flambeau.get_num_threads() == threads
    seen = []
    m = Timer("pass").blocked_autorange(lambda number, time: seen.append(number), min_run_time=1e-3)
    assert seen == [m.number_per_run] * len(m.raw_times) and sum(m.raw_times) >= 1e-3
    assert Timer("pass").adaptive_autorange(10.0, min_run_time=1e-3, max_run_time=0.1).median > 0
    with pytest.raises(NotImplementedError):
        Timer("int x;", language="c++")
