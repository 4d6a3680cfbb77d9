//! Padding of up to some dims by what the array itself holds: along each, every place of the result reads one place of
//! the input.

use crate::copy::Shared;
use crate::math::{Isa, Kernel, Level, Number, run};
use flambeau_base::Element;
use flambeau_base::iter::GRAIN;
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;
use std::ops::Range;

/// A padded dim: how many places the input has, and which of them every place of the result reads.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The input's size.
    pub size: usize,
    /// A place below it for every place of the result.
    pub from: Vec<usize>,
}

impl Axis {
    /// Whether places are read in runs that are worth it.
    fn has_runs(&self) -> bool {
        let breaks = self.from.iter().zip(self.from.iter().skip(1)).filter(|(a, b)| **b != **a + 1).count();
        breaks * 3 < self.from.len()
    }

    /// Whether all places are the input's. (All are looked at: a loop that stops early is slower.)
    fn is_valid(&self) -> bool {
        self.from.iter().fold(true, |valid, place| valid & (*place < self.size))
    }
}

/// Places of a row that read neighbours: (the first of the result, the first of the input, how many).
type Run = (usize, usize, usize);

/// What the rows of a padding have in common: a row is all of the last padded dim.
struct Rows<'a> {
    /// Sizes of a row, in elements: of the input and of the result.
    widths: (usize, usize),
    /// How many rows of the input belong together.
    inputs: usize,
    /// For every row of the result that belongs together, the row of the input.
    from: Vec<usize>,
    /// In elements; those of several.
    runs: Vec<Run>,
    /// Those of one element: where it goes, and where it is.
    singles: Vec<(usize, usize)>,
    /// Instead of runs, where hardly any elements are neighbours: where each is.
    places: &'a [usize],
}

impl<'a> Rows<'a> {
    fn new(axes: &'a [Axis], block: usize) -> Option<Rows<'a>> {
        assert!(axes.iter().all(Axis::is_valid), "a place is outside of the input");
        let (last, outer) = axes.split_last()?;
        let mut from = vec![0];
        for axis in outer {
            from = from.iter().flat_map(|at| axis.from.iter().map(move |f| at * axis.size + f)).collect();
        }
        let (mut runs, mut singles): (Vec<Run>, Vec<_>) = Default::default();
        let places = if block == 1 && !last.has_runs() { &last.from[..] } else { &[] };
        let mut at = places.len();
        while let Some(&first) = last.from.get(at) {
            let n = last.from[at..].iter().zip(first..).take_while(|(f, wanted)| *f == wanted).count();
            match n * block {
                1 => singles.push((at, first)),
                elements => runs.push((at * block, first * block, elements)),
            }
            at += n;
        }
        let inputs = outer.iter().map(|axis| axis.size).product();
        Some(Rows { widths: (last.size * block, last.from.len() * block), inputs, from, runs, singles, places })
    }
}

/// Pads the dims between `outer` ones and a contiguous `block` of elements.
///
/// # Panics
/// When an axis reads outside, or the arrays' sizes are not those of the axes.
pub fn pad<T: Element>(axes: &[Axis], outer: usize, block: usize, x: &[T], out: &mut [T]) {
    let Some(rows) = Rows::new(axes, block) else { return };
    let (per_plane, width) = (rows.from.len(), rows.widths.1);
    assert!(
        x.len() == outer * rows.inputs * rows.widths.0 && out.len() == outer * per_plane * width,
        "the arrays differ in size"
    );
    if out.is_empty() {
        return;
    }
    let target = Shared(out.as_mut_ptr());
    parallel_for(outer * per_plane, GRAIN.div_ceil(width), &|range| {
        // SAFETY: every row of the result is one piece of work's; sizes and places were checked.
        unsafe { run::<Pad<T>>((&rows, range, x.as_ptr(), target.get())) };
    });
}

struct Pad<'a, T>(PhantomData<&'a T>);

impl<'a, T: Element> Kernel for Pad<'a, T> {
    /// What the rows have in common, which rows, the input and the result.
    type Args = (&'a Rows<'a>, Range<usize>, *const T, *mut T);
    type Output = ();
    const HIGHEST: Level = Level::Avx2;

    #[inline(always)]
    unsafe fn run<I: Isa>((rows, range, x, out): Self::Args) {
        let (per_plane, (from_width, width)) = (rows.from.len(), rows.widths);
        let (mut plane, mut row) = (range.start / per_plane, range.start % per_plane);
        let mut before = usize::MAX;
        for k in range {
            let from = plane * rows.inputs + rows.from[row];
            // SAFETY: rows of the input and of the result, which is this call's; runs lie in them.
            unsafe {
                let (x, out) = (x.add(from * from_width), out.add(k * width));
                // The row before is still in the cache.
                if from == before {
                    std::ptr::copy_nonoverlapping(out.sub(width), out, width);
                } else {
                    rows.places.iter().enumerate().for_each(|(to, from)| *out.add(to) = *x.add(*from));
                    rows.singles.iter().for_each(|&(to, from)| *out.add(to) = *x.add(from));
                    rows.runs.iter().for_each(|&(to, from, n)| move_run(x.add(from), out.add(to), n));
                }
            }
            before = from;
            row += 1;
            if row == per_plane {
                (plane, row) = (plane + 1, 0);
            }
        }
    }
}

/// Moves at least two elements that are apart from where they go: most runs are too short for a call.
///
/// # Safety
/// There are so many on both sides.
#[inline(always)]
pub(crate) unsafe fn move_run<T: Copy>(x: *const T, out: *mut T, n: usize) {
    let bytes = n * size_of::<T>();
    // SAFETY: the caller's.
    unsafe {
        match bytes {
            1024.. => std::ptr::copy_nonoverlapping(x, out, n),
            32.. => move_by::<32>(x.cast(), out.cast(), bytes),
            16.. => move_by::<16>(x.cast(), out.cast(), bytes),
            8.. => move_by::<8>(x.cast(), out.cast(), bytes),
            4.. => move_by::<4>(x.cast(), out.cast(), bytes),
            _ => move_by::<2>(x.cast(), out.cast(), bytes),
        }
    }
}

/// Moves at least `N` bytes, `N` at a time; the last ones may be moved twice.
///
/// # Safety
/// As of [`move_run`].
#[inline(always)]
unsafe fn move_by<const N: usize>(x: *const u8, out: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(N) {
        let at = at.min(bytes - N);
        // SAFETY: the caller's.
        unsafe { out.add(at).cast::<[u8; N]>().write_unaligned(x.add(at).cast::<[u8; N]>().read_unaligned()) };
    }
}

/// The gradient of [`pad`]: every element of `g` is added to where the padding read it.
///
/// # Panics
/// As [`pad`], with `g` for the result and `out` for the input.
pub fn pad_backward<T: Number>(axes: &[Axis], outer: usize, block: usize, g: &[T], out: &mut [T]) {
    let Some(rows) = Rows::new(axes, block) else { return };
    let plane = rows.inputs * rows.widths.0;
    assert!(
        out.len() == outer * plane && g.len() == outer * rows.from.len() * rows.widths.1,
        "the arrays differ in size"
    );
    if out.is_empty() {
        return;
    }
    let target = Shared(out.as_mut_ptr());
    parallel_for(outer, GRAIN.div_ceil(plane), &|range| {
        // SAFETY: planes of the result, which are one piece of work's.
        let out = unsafe { std::slice::from_raw_parts_mut(target.get().add(range.start * plane), range.len() * plane) };
        // SAFETY: the kernel only asks for the instruction set that it is run with.
        unsafe { run::<Add<T>>((&rows, range, g, out)) };
    });
}

struct Add<'a, T>(PhantomData<&'a T>);

impl<'a, T: Number> Kernel for Add<'a, T> {
    /// The rows, which planes, all gradients, and these planes of the result.
    type Args = (&'a Rows<'a>, Range<usize>, &'a [T], &'a mut [T]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((rows, planes, g, out): Self::Args) {
        let (width, g_width) = rows.widths;
        out.fill(T::ZERO);
        for (plane, out) in planes.zip(out.chunks_exact_mut(rows.inputs * width)) {
            for (row, from) in rows.from.iter().enumerate() {
                let g = &g[(plane * rows.from.len() + row) * g_width..][..g_width];
                let out = &mut out[from * width..][..width];
                for (to, from) in rows.places.iter().enumerate() {
                    out[*from] = T::add(out[*from], g[to]);
                }
                for &(to, from) in &rows.singles {
                    out[from] = T::add(out[from], g[to]);
                }
                for &(to, from, n) in &rows.runs {
                    for (out, g) in out[from..from + n].iter_mut().zip(&g[to..to + n]) {
                        *out = T::add(*out, *g);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Vec<Axis> {
        vec![Axis { size: 2, from: vec![1, 0, 1] }, Axis { size: 3, from: vec![0, 0, 1, 2, 1] }]
    }

    #[test]
    fn places_are_read() {
        let x: Vec<i32> = (0..12).collect();
        let mut out = [0; 30];
        pad(&axes(), 2, 1, &x, &mut out);
        assert_eq!(out[..15], [3, 3, 4, 5, 4, 0, 0, 1, 2, 1, 3, 3, 4, 5, 4]);
        assert_eq!(out[15], 9);
        pad(&axes(), 1, 2, &x, &mut out);
        assert_eq!(out[..10], [6, 7, 6, 7, 8, 9, 10, 11, 8, 9]);
        assert_eq!(out[10..20], [0, 1, 0, 1, 2, 3, 4, 5, 2, 3]);
    }

    /// Runs of all lengths, single places, scattered ones and repeated rows, of elements of every size.
    #[test]
    fn all_forms_read_their_places() {
        fn check<T: Element + PartialEq + std::fmt::Debug>(
            axes: &[Axis],
            outer: usize,
            block: usize,
            of: fn(usize) -> T,
        ) {
            let [rows, columns] = axes else { panic!("two axes") };
            let x: Vec<T> = (0..outer * rows.size * columns.size * block).map(of).collect();
            let mut wanted = Vec::new();
            for plane in x.chunks(rows.size * columns.size * block) {
                for (row, column) in rows.from.iter().flat_map(|r| columns.from.iter().map(move |c| (r, c))) {
                    wanted.extend_from_slice(&plane[(row * columns.size + column) * block..][..block]);
                }
            }
            let mut out = vec![of(0); wanted.len()];
            pad(axes, outer, block, &x, &mut out);
            assert_eq!(out, wanted, "{axes:?} {block}");
        }
        for n in [1, 2, 3, 5, 8, 17, 40, 300] {
            let columns = [
                (0..n).chain([n - 1]).collect(),
                (0..n).rev().collect(),
                [0, 0].into_iter().chain(n / 2..n).collect(),
                (0..3 * n).map(|i| i / 3).collect::<Vec<_>>(),
            ];
            for (from, block) in
                columns.into_iter().flat_map(|c| [1, 2, 3, 4, 7, 16, 33].map(|block| (c.clone(), block)))
            {
                let axes = [Axis { size: 2, from: vec![1, 1, 0] }, Axis { size: n, from }];
                check(&axes, 2, block, |i| i as u8);
                check(&axes, 2, block, |i| i as u16);
                check(&axes, 1, block, |i| i as u32);
                check(&axes, 1, block, |i| i as u64);
            }
        }
    }

    #[test]
    fn gradients_of_scattered_places_add_up() {
        let axes = [Axis { size: 3, from: vec![2, 2, 0, 0, 2] }];
        let mut back = [9.0; 3];
        pad_backward(&axes, 1, 1, &[1.0, 2.0, 4.0, 8.0, 16.0], &mut back);
        assert_eq!(back, [12.0, 0.0, 19.0]);
    }

    #[test]
    fn gradients_go_where_they_came_from() {
        for (outer, block) in [(2, 1), (1, 2)] {
            let (x, g): (Vec<f64>, Vec<f64>) =
                ((0..12).map(f64::from).collect(), (0..30).map(|i| f64::from(i * i)).collect());
            let (mut y, mut back) = (vec![0.0; 30], vec![9.0; 12]);
            pad(&axes(), outer, block, &x, &mut y);
            pad_backward(&axes(), outer, block, &g, &mut back);
            // One is the other's adjoint.
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            assert_eq!(dot(&y, &g), dot(&x, &back));
        }
    }
}
