//! Convolutions and poolings of one to three dims.

use crate::Kernel;
use crate::array::{Arithmetic, Array, Kind, by_kind, indices, outline, place, sizes_of, write};
use flambeau::value::take;
use flambeau::{Op, Outputs, Result, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] = &[
    ("convolution", convolution),
    ("flambeau::conv_input_gradient", input_gradient),
    ("flambeau::conv_weight_gradient", weight_gradient),
    ("avg_pool2d", |op, args| average(op, args, 2)),
    ("avg_pool3d", |op, args| average(op, args, 3)),
    ("avg_pool2d_backward", |op, args| average_backward(op, args, 2)),
    ("avg_pool3d_backward", |op, args| average_backward(op, args, 3)),
    ("_adaptive_avg_pool2d", |op, args| adaptive_average(op, args, 2)),
    ("_adaptive_avg_pool3d", |op, args| adaptive_average(op, args, 3)),
    ("_adaptive_avg_pool2d_backward", |op, args| adaptive_average_backward(op, args, 2)),
    ("_adaptive_avg_pool3d_backward", |op, args| adaptive_average_backward(op, args, 3)),
    ("max_pool1d_with_indices", |op, args| greatest(op, args, 1)),
    ("max_pool2d_with_indices", |op, args| greatest(op, args, 2)),
    ("max_pool3d_with_indices", |op, args| greatest(op, args, 3)),
    ("adaptive_max_pool1d", |op, args| adaptive_greatest(op, args, 1)),
    ("adaptive_max_pool2d", |op, args| adaptive_greatest(op, args, 2)),
    ("adaptive_max_pool3d", |op, args| adaptive_greatest(op, args, 3)),
];

/// A list of `n` numbers, of which one stands for all.
fn spread(list: &[i64], n: usize) -> Vec<i64> {
    (0..n).map(|d| if list.len() == 1 { list[0] } else { list[d] }).collect()
}

// ---- convolutions -------------------------------------------------------------------------------

/// One product of a convolution: the places in the input, the weight and the output.
struct Term {
    input: usize,
    weight: usize,
    output: usize,
}

/// Every product that a convolution adds up. A transposed one has input and output exchanged.
fn terms(
    op: &'static Op,
    args: &[Value<'_>],
    first: usize,
    [input, weight, output]: [&[usize]; 3],
) -> Result<Vec<Term>> {
    let n = weight.len() - 2;
    let list = |i: usize| take::<&[i64]>(op, args, first + i).map(|l| spread(l, n));
    let (stride, padding, dilation) = (list(0)?, list(1)?, list(2)?);
    let (transposed, groups): (bool, i64) = (take(op, args, first + 3)?, take(op, args, first + 5)?);
    let (narrow, wide) = if transposed { (input, output) } else { (output, input) };
    // The weight's first dim counts the channels on the narrow side, the second those of one group on the wide side.
    let of_group = weight[0] / groups as usize;
    let mut found = Vec::new();
    for batch in 0..narrow[0] {
        for w in indices(weight) {
            for position in indices(&narrow[2..]) {
                let mut at = vec![batch, w[0] / of_group * weight[1] + w[1]];
                for d in 0..n {
                    let i = position[d] as i64 * stride[d] - padding[d] + w[d + 2] as i64 * dilation[d];
                    if (0..wide[d + 2] as i64).contains(&i) {
                        at.push(i as usize);
                    }
                }
                if at.len() == n + 2 {
                    let here = place(narrow, &[&[batch, w[0]], &position[..]].concat());
                    let there = place(wide, &at);
                    let (input, output) = if transposed { (here, there) } else { (there, here) };
                    found.push(Term { input, weight: place(weight, &w), output });
                }
            }
        }
    }
    Ok(found)
}

fn convolution(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (x, w): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let bias: Option<&Tensor> = take(op, args, 2)?;
    let out = outline(op, args)?.remove(0);
    let terms = terms(op, args, 3, [&sizes_of(x), &sizes_of(w), &sizes_of(&out)])?;
    by_kind!(Kind::of(x.dtype()), T => {
        let (x, w) = (Array::<T>::read(x)?, Array::<T>::read(w)?);
        let mut y = vec![T::zero(); out.numel() as usize];
        for t in terms {
            y[t.output] = y[t.output].plus(x.data[t.input].times(w.data[t.weight]));
        }
        if let Some(bias) = bias {
            let bias = Array::<T>::read(bias)?;
            for (y, index) in y.iter_mut().zip(indices(&sizes_of(&out))) {
                *y = y.plus(bias.data[index[1]]);
            }
        }
        write(&out, &y).map(Outputs::from)
    })
}

fn input_gradient(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (g, w): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let out = outline(op, args)?.remove(0);
    let terms = terms(op, args, 3, [&sizes_of(&out), &sizes_of(w), &sizes_of(g)])?;
    by_kind!(Kind::of(g.dtype()), T => {
        let (g, w) = (Array::<T>::read(g)?, Array::<T>::read(&w.conj()?)?);
        let mut x = vec![T::zero(); out.numel() as usize];
        for t in terms {
            x[t.input] = x[t.input].plus(g.data[t.output].times(w.data[t.weight]));
        }
        write(&out, &x).map(Outputs::from)
    })
}

fn weight_gradient(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let (g, x): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let out = outline(op, args)?.remove(0);
    let terms = terms(op, args, 3, [&sizes_of(x), &sizes_of(&out), &sizes_of(g)])?;
    by_kind!(Kind::of(g.dtype()), T => {
        let (g, x) = (Array::<T>::read(g)?, Array::<T>::read(&x.conj()?)?);
        let mut w = vec![T::zero(); out.numel() as usize];
        for t in terms {
            w[t.weight] = w[t.weight].plus(g.data[t.output].times(x.data[t.input]));
        }
        write(&out, &w).map(Outputs::from)
    })
}

// ---- poolings -----------------------------------------------------------------------------------

/// One window: the places in the input it covers, each with its position in its plane, and how many count.
struct Window {
    members: Vec<(usize, i64)>,
    counted: f64,
}

/// The windows of each element of the output. `range` gives, for a dim and a position, the positions that a window covers,
/// of which some may lie outside, and how many count.
fn windows(
    input: &[usize],
    output: &[usize],
    n: usize,
    range: impl Fn(usize, usize) -> (Vec<i64>, i64),
) -> Vec<Window> {
    let planes = input.len() - n;
    let window = |index: Vec<usize>| {
        let ranges: Vec<(Vec<i64>, i64)> = (0..n).map(|d| range(d, index[planes + d])).collect();
        let inside = |d: usize| {
            let size = input[planes + d] as i64;
            ranges[d].0.iter().copied().filter(move |i| (0..size).contains(i)).map(|i| i as usize).collect::<Vec<_>>()
        };
        let inside: Vec<Vec<usize>> = (0..n).map(inside).collect();
        let counts: Vec<usize> = inside.iter().map(Vec::len).collect();
        let members = indices(&counts).into_iter().map(|which| {
            let at: Vec<usize> = which.iter().zip(&inside).map(|(k, all)| all[*k]).collect();
            (place(input, &[&index[..planes], &at].concat()), place(&input[planes..], &at) as i64)
        });
        Window { members: members.collect(), counted: ranges.iter().map(|r| r.1 as f64).product() }
    };
    indices(output).into_iter().map(window).collect()
}

/// The windows of an average pooling, whose arguments begin at `first`.
fn average_windows(
    op: &'static Op,
    args: &[Value<'_>],
    first: usize,
    x: &Tensor,
    out: &Tensor,
    n: usize,
) -> Result<Vec<Window>> {
    let kernel = spread(take(op, args, first)?, n);
    let stride: &[i64] = take::<Option<&[i64]>>(op, args, first + 1)?.unwrap_or(&[]);
    let stride = if stride.is_empty() { kernel.clone() } else { spread(stride, n) };
    let padding = spread(take::<Option<&[i64]>>(op, args, first + 2)?.unwrap_or(&[0]), n);
    let all_count = take::<Option<bool>>(op, args, first + 4)?.unwrap_or(true);
    let divisor: Option<i64> = take(op, args, first + 5)?;
    let sizes = sizes_of(x);
    let planes = sizes.len() - n;
    let mut windows = windows(&sizes, &sizes_of(out), n, |d, o| {
        let size = sizes[planes + d] as i64;
        let begin = o as i64 * stride[d] - padding[d];
        // What lies beyond the padding counts nothing.
        let end = (begin + kernel[d]).min(size + padding[d]);
        let counted = if all_count { end - begin } else { end.min(size) - begin.max(0) };
        ((begin..end).collect(), counted)
    });
    if let Some(divisor) = divisor {
        windows.iter_mut().for_each(|w| w.counted = divisor as f64);
    }
    Ok(windows)
}

fn averages(x: &Tensor, out: &Tensor, windows: &[Window]) -> Result<Outputs> {
    let x = Array::<f64>::read(x)?.data;
    let mean = |w: &Window| w.members.iter().map(|m| x[m.0]).sum::<f64>() / w.counted;
    write(out, &windows.iter().map(mean).collect::<Vec<_>>()).map(Outputs::from)
}

fn averages_backward(g: &Tensor, out: &Tensor, windows: &[Window]) -> Result<Outputs> {
    let mut x = vec![0.0; out.numel() as usize];
    for (g, window) in Array::<f64>::read(g)?.data.iter().zip(windows) {
        window.members.iter().for_each(|m| x[m.0] += g / window.counted);
    }
    write(out, &x).map(Outputs::from)
}

fn average(op: &'static Op, args: &[Value<'_>], n: usize) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let out = outline(op, args)?.remove(0);
    averages(x, &out, &average_windows(op, args, 1, x, &out, n)?)
}

fn average_backward(op: &'static Op, args: &[Value<'_>], n: usize) -> Result<Outputs> {
    let (g, x): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let out = outline(op, args)?.remove(0);
    averages_backward(g, &out, &average_windows(op, args, 2, x, g, n)?)
}

/// The windows that divide the input evenly, as far as that goes.
fn adaptive_windows(input: &[usize], output: &[usize], n: usize) -> Vec<Window> {
    let planes = input.len() - n;
    windows(input, output, n, |d, o| {
        let (size, parts) = (input[planes + d], output[planes + d]);
        let (begin, end) = (o * size / parts, ((o + 1) * size).div_ceil(parts));
        ((begin as i64..end as i64).collect(), (end - begin) as i64)
    })
}

fn adaptive_average(op: &'static Op, args: &[Value<'_>], n: usize) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let out = outline(op, args)?.remove(0);
    averages(x, &out, &adaptive_windows(&sizes_of(x), &sizes_of(&out), n))
}

fn adaptive_average_backward(op: &'static Op, args: &[Value<'_>], n: usize) -> Result<Outputs> {
    let (g, x): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let out = outline(op, args)?.remove(0);
    averages_backward(g, &out, &adaptive_windows(&sizes_of(x), &sizes_of(g), n))
}

/// The greatest element of each window, the first of equals and any NaN, and its position in its plane.
fn maxima(x: &Tensor, outs: &[Tensor], windows: &[Window]) -> Result<Outputs> {
    let x = Array::<f64>::read(x)?.data;
    let (mut values, mut positions) = (vec![], vec![]);
    for window in windows {
        let mut best = window.members[0];
        for &m in &window.members {
            if x[m.0] > x[best.0] || x[m.0].is_nan() {
                best = m;
            }
        }
        values.push(x[best.0]);
        positions.push(best.1);
    }
    Ok(vec![write(&outs[0], &values)?, write(&outs[1], &positions)?].into())
}

fn greatest(op: &'static Op, args: &[Value<'_>], n: usize) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let outs = outline(op, args)?;
    let kernel = spread(take(op, args, 1)?, n);
    let stride: &[i64] = take::<Option<&[i64]>>(op, args, 2)?.unwrap_or(&[]);
    let stride = if stride.is_empty() { kernel.clone() } else { spread(stride, n) };
    let padding = spread(take::<Option<&[i64]>>(op, args, 3)?.unwrap_or(&[0]), n);
    let dilation = spread(take::<Option<&[i64]>>(op, args, 4)?.unwrap_or(&[1]), n);
    let windows = windows(&sizes_of(x), &sizes_of(&outs[0]), n, |d, o| {
        let begin = o as i64 * stride[d] - padding[d];
        ((0..kernel[d]).map(|k| begin + k * dilation[d]).collect(), 0)
    });
    maxima(x, &outs, &windows)
}

fn adaptive_greatest(op: &'static Op, args: &[Value<'_>], n: usize) -> Result<Outputs> {
    let x: &Tensor = take(op, args, 0)?;
    let outs = outline(op, args)?;
    maxima(x, &outs, &adaptive_windows(&sizes_of(x), &sizes_of(&outs[0]), n))
}
