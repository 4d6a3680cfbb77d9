//! Images sampled at given places, with gradients; and the greatest elements of windows at random places.

use crate::Kernel;
use crate::array::{Array, indices, outline, outlines, place, sizes_of, write};
use flambeau::value::take;
use flambeau::{Op, Outputs, Result, Tensor, Value};

pub(crate) const KERNELS: &[(&str, Kernel)] = &[
    ("grid_sampler_2d", sample),
    ("grid_sampler_3d", sample),
    ("grid_sampler_2d_backward", sample_backward),
    ("grid_sampler_3d_backward", sample_backward),
    ("fractional_max_pool2d", |op, args| fractional(op, args, 2)),
    ("fractional_max_pool3d", |op, args| fractional(op, args, 3)),
];

// ---- samples ------------------------------------------------------------------------------------

/// Where places outside the image lie.
#[derive(Clone, Copy, PartialEq)]
enum Padding {
    /// Nowhere: what is read there is zero.
    Zeros,
    /// At the border.
    Border,
    /// Reflected, as often as it takes.
    Reflection,
}

/// How a place reads its neighbours along an axis.
#[derive(Clone, Copy, PartialEq)]
enum Interpolation {
    /// The two beside it.
    Linear,
    /// The nearest, of two equally near ones the even.
    Nearest,
    /// Two on each side, by Keys' kernel ("Cubic convolution interpolation for digital image processing", 1981).
    Cubic,
}

#[derive(Clone, Copy)]
struct Sampler {
    interpolation: Interpolation,
    padding: Padding,
    /// Whether -1 and 1 are the centres of the outermost elements, or their edges.
    align_corners: bool,
}

/// What is read along one axis: where (nowhere if it is outside), with which weight, and how that changes with the
/// place.
#[derive(Clone, Copy)]
struct Neighbour {
    at: Option<usize>,
    weight: f64,
    slope: f64,
}

/// A position along an axis, and how it changes with the place.
type Moving = (f64, f64);

impl Sampler {
    /// The arguments from `first` on. Those that are out of range were refused on Meta.
    fn of(op: &'static Op, args: &[Value<'_>], first: usize) -> Result<Sampler> {
        Ok(Sampler {
            interpolation: match take::<i64>(op, args, first)? {
                0 => Interpolation::Linear,
                1 => Interpolation::Nearest,
                _ => Interpolation::Cubic,
            },
            padding: match take::<i64>(op, args, first + 1)? {
                0 => Padding::Zeros,
                1 => Padding::Border,
                _ => Padding::Reflection,
            },
            align_corners: take(op, args, first + 2)?,
        })
    }

    /// From [-1, 1] to positions of elements.
    fn position(self, place: f64, size: f64) -> Moving {
        match self.align_corners {
            true => ((place + 1.0) / 2.0 * (size - 1.0), (size - 1.0) / 2.0),
            false => (((place + 1.0) * size - 1.0) / 2.0, size / 2.0),
        }
    }

    /// A position moved into the image. Where it stops at a border, it changes no more; NaN is at 0.
    fn padded(self, (at, slope): Moving, size: f64) -> Moving {
        if self.padding == Padding::Zeros {
            return (at, slope);
        }
        let (at, slope) =
            if self.padding == Padding::Reflection { self.reflected((at, slope), size) } else { (at, slope) };
        match at {
            at if at >= size - 1.0 => (size - 1.0, 0.0),
            at if at > 0.0 => (at, slope),
            _ => (0.0, 0.0),
        }
    }

    /// Reflected at the centres of the outermost elements, or at their edges.
    fn reflected(self, (at, slope): Moving, size: f64) -> Moving {
        let (low, span) = if self.align_corners { (0.0, size - 1.0) } else { (-0.5, size) };
        if span == 0.0 {
            return (0.0, 0.0);
        }
        let (from, slope) = if at < low { (low - at, -slope) } else { (at - low, slope) };
        let (flips, rest) = ((from / span).floor(), from - (from / span).floor() * span);
        if flips % 2.0 == 0.0 { (rest + low, slope) } else { (span - rest + low, -slope) }
    }

    /// What a place reads along an axis of `size` elements.
    fn neighbours(self, place: f64, size: usize) -> Vec<Neighbour> {
        let n = size as f64;
        let inside = |at: f64| (0.0..n).contains(&at).then_some(at as usize);
        // What is not finite is far outside.
        let near = |(at, slope): Moving| if at.abs() < 1e9 { (at, slope) } else { (-100.0, slope) };
        let position = self.position(place, n);
        match self.interpolation {
            Interpolation::Nearest => {
                let (at, _) = near(self.padded(position, n));
                vec![Neighbour { at: inside(at.round_ties_even()), weight: 1.0, slope: 0.0 }]
            }
            Interpolation::Linear => {
                let (at, slope) = near(self.padded(position, n));
                let share = at - at.floor();
                vec![
                    Neighbour { at: inside(at.floor()), weight: 1.0 - share, slope: -slope },
                    Neighbour { at: inside(at.floor() + 1.0), weight: share, slope },
                ]
            }
            Interpolation::Cubic => {
                let (at, slope) = near(position);
                let neighbour = |k: i32| {
                    let place = at.floor() + f64::from(k);
                    let (weight, change) = keys(at - place);
                    // Each is padded by itself.
                    Neighbour { at: inside(near(self.padded((place, 0.0), n)).0), weight, slope: change * slope }
                };
                (-1..3).map(neighbour).collect()
            }
        }
    }
}

/// Keys' kernel with `a = -3/4` and its derivative.
fn keys(x: f64) -> (f64, f64) {
    let (a, s) = (-0.75, x.abs());
    let (value, slope) = match s {
        s if s <= 1.0 => (((a + 2.0) * s - (a + 3.0)) * s * s + 1.0, (3.0 * (a + 2.0) * s - 2.0 * (a + 3.0)) * s),
        s if s < 2.0 => (((a * s - 5.0 * a) * s + 8.0 * a) * s - 4.0 * a, (3.0 * a * s - 10.0 * a) * s + 8.0 * a),
        _ => (0.0, 0.0),
    };
    (value, if x < 0.0 { -slope } else { slope })
}

/// Images (N, C, ...) and the places (N, ..., dims) that they are read at.
struct Images {
    x: Array<f64>,
    grid: Array<f64>,
    sampler: Sampler,
}

/// One element that one sample reads: the place in the images, the sample's number, the weight, and for each axis the
/// number of the place's coordinate and how the weight changes with it.
struct Reading {
    from: usize,
    sample: usize,
    weight: f64,
    slopes: Vec<(usize, f64)>,
}

impl Images {
    fn of(x: &Tensor, grid: &Tensor, sampler: Sampler) -> Result<Images> {
        Ok(Images { x: Array::read(x)?, grid: Array::read(grid)?, sampler })
    }

    /// Everything that is read, for every sample (N, C, ...) in row-major order.
    fn readings(&self) -> Vec<Reading> {
        let axes = self.x.sizes.len() - 2;
        let samples = [&self.x.sizes[..2], &self.grid.sizes[1..=axes]].concat();
        let mut all = vec![];
        for (sample, index) in indices(&samples).into_iter().enumerate() {
            let at = place(&self.grid.sizes, &[&index[..1], &index[2..], &[0]].concat());
            // The last axis of the image is the first of a place.
            let coordinate = |a: usize| at + axes - 1 - a;
            let along = |a: usize| self.sampler.neighbours(self.grid.data[coordinate(a)], self.x.sizes[2 + a]);
            let neighbours: Vec<Vec<Neighbour>> = (0..axes).map(along).collect();
            let counts: Vec<usize> = neighbours.iter().map(Vec::len).collect();
            for which in indices(&counts) {
                let corner: Vec<Neighbour> = which.iter().zip(&neighbours).map(|(k, axis)| axis[*k]).collect();
                let Some(inside) = corner.iter().map(|n| n.at).collect::<Option<Vec<usize>>>() else { continue };
                let product = |but: usize| {
                    (0..axes).map(|a| if a == but { corner[a].slope } else { corner[a].weight }).product::<f64>()
                };
                all.push(Reading {
                    from: place(&self.x.sizes, &[&index[..2], &inside].concat()),
                    sample,
                    weight: product(axes),
                    slopes: (0..axes).map(|a| (coordinate(a), product(a))).collect(),
                });
            }
        }
        all
    }
}

fn sample(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let out = outline(op, args)?.remove(0);
    let images = Images::of(take(op, args, 0)?, take(op, args, 1)?, Sampler::of(op, args, 2)?)?;
    let mut y = vec![0.0; out.numel() as usize];
    for r in images.readings() {
        y[r.sample] += r.weight * images.x.data[r.from];
    }
    write(&out, &y).map(Outputs::from)
}

fn sample_backward(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let outs = outlines(op, args)?;
    let g = Array::<f64>::read(take(op, args, 0)?)?.data;
    let images = Images::of(take(op, args, 1)?, take(op, args, 2)?, Sampler::of(op, args, 3)?)?;
    let (mut by_x, mut by_grid) = (vec![0.0; images.x.data.len()], vec![0.0; images.grid.data.len()]);
    for r in images.readings() {
        by_x[r.from] += r.weight * g[r.sample];
        for (coordinate, slope) in r.slopes {
            by_grid[coordinate] += slope * images.x.data[r.from] * g[r.sample];
        }
    }
    let found = outs.iter().zip([by_x, by_grid]).map(|(o, d)| o.as_ref().map(|o| write(o, &d)).transpose());
    Ok(Outputs::Many(found.collect::<Result<_>>()?))
}

// ---- windows of random places -------------------------------------------------------------------

/// Where the windows of an axis begin: at `floor((i + u) alpha)`, moved so that the first begins at 0, and the last as
/// late as it can (Graham, "Fractional max-pooling", 2014).
fn starts(u: f64, size: usize, count: usize, kernel: usize) -> Vec<usize> {
    let last = size - kernel;
    let alpha = if count > 1 { last as f64 / (count - 1) as f64 } else { 0.0 };
    let start = |i: usize| match i + 1 == count {
        true => last,
        false => (((i as f64 + u) * alpha).floor() - (u * alpha).floor()).clamp(0.0, last as f64) as usize,
    };
    (0..count).map(start).collect()
}

/// The greatest element of each window, the first of equals and the last NaN, and its place in its plane.
fn fractional(op: &'static Op, args: &[Value<'_>], n: usize) -> Result<Outputs> {
    let outs = outline(op, args)?;
    let (x, kernel): (&Tensor, &[i64]) = (take(op, args, 0)?, take(op, args, 1)?);
    let draws = Array::<f64>::read(take(op, args, 3)?)?.data;
    let (x, sizes) = (Array::<f64>::read(x)?, sizes_of(&outs[0]));
    let kernel: Vec<usize> = kernel.iter().map(|k| *k as usize).collect();
    let planes = x.sizes.len() - n;
    let (mut values, mut places) = (vec![], vec![]);
    for index in indices(&sizes) {
        let plane = place(&sizes[..planes], &index[..planes]);
        let begin: Vec<usize> = (0..n)
            .map(|a| {
                // The draws are for the width first in two dims, for the depth first in three.
                let u = draws[plane * n + if n == 2 { 1 - a } else { a }];
                starts(u, x.sizes[planes + a], sizes[planes + a], kernel[a])[index[planes + a]]
            })
            .collect();
        let (mut best, mut value) = (place(&x.sizes[planes..], &begin), f64::NEG_INFINITY);
        for step in indices(&kernel) {
            let at: Vec<usize> = begin.iter().zip(step).map(|(b, s)| b + s).collect();
            let here = x.data[place(&x.sizes, &[&index[..planes], &at].concat())];
            if here > value || here.is_nan() {
                (best, value) = (place(&x.sizes[planes..], &at), here);
            }
        }
        values.push(value);
        places.push(best as i64);
    }
    Ok(vec![write(&outs[0], &values)?, write(&outs[1], &places)?].into())
}
