//! Resizing along one dim: every place of the output is a weighted sum of a few places of the input.

use crate::buffer::Scratch;
use crate::copy::Shared;
use crate::math::{Isa, Kernel, Level, Number, run};
use crate::padding::move_run;
use flambeau_base::iter::GRAIN;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{Element, dtype::cast};
use std::marker::PhantomData;
use std::ops::Range;

/// Elements of a row that are added up in registers.
const CHUNK: usize = 32;

/// Rows that are computed at once.
const AT_ONCE: usize = 4;

/// Rows of bytes that are computed as columns.
const TURNED: usize = 16;

/// Which places of the input every place of the output reads, and with which weights.
#[derive(Clone, Copy)]
pub struct Taps<'a> {
    /// Where each output's taps begin, and where those of the last end.
    pub starts: &'a [i64],
    /// The places, output by output.
    pub places: &'a [i64],
    /// Their weights.
    pub weights: &'a [f64],
}

impl Taps<'_> {
    /// Whether they are in order, and all places below `from`.
    pub fn fit(&self, from: usize) -> bool {
        let ends = self.starts.first() == Some(&0) && self.starts.last() == Some(&(self.places.len() as i64));
        let rises = self.starts.windows(2).all(|w| w[0] <= w[1]);
        let within = self.places.iter().all(|p| (0..from as i64).contains(p));
        ends && rises && within && self.weights.len() == self.places.len()
    }

    fn of(&self, output: usize) -> Range<usize> {
        self.starts[output] as usize..self.starts[output + 1] as usize
    }
}

/// What images are made of, and how it is added up.
pub(crate) trait Pixel: Copy + Send + Sync {
    /// A share of an element in a sum.
    type Weight: Copy + PartialEq + Send + Sync;
    /// A sum in the making.
    type Sum: Copy;
    /// The weight of what is only moved, if there is such.
    const WHOLE: Option<Self::Weight>;
    /// An empty sum of weights in units of `2^-shift`.
    fn start(shift: u32) -> Self::Sum;
    /// Adds weighted elements.
    fn add<I: Isa, const N: usize>(sums: &mut [Self::Sum; N], weight: Self::Weight, x: &[Self; N]);
    /// The sum as an element.
    fn finish(sum: Self::Sum, shift: u32) -> Self;
}

macro_rules! float_pixels {
    ($($t:ty),*) => { $(
        impl Pixel for $t {
            type Weight = $t;
            type Sum = $t;
            const WHOLE: Option<$t> = Some(1.0);
            #[inline(always)]
            fn start(_shift: u32) -> $t {
                0.0
            }
            #[inline(always)]
            fn add<I: Isa, const N: usize>(sums: &mut [$t; N], weight: $t, x: &[$t; N]) {
                for i in 0..N {
                    sums[i] = <$t as Number>::mul_add::<I>(weight, x[i], sums[i]);
                }
            }
            #[inline(always)]
            fn finish(sum: $t, _shift: u32) -> $t {
                sum
            }
        }
    )* };
}
float_pixels!(f32, f64);

impl Pixel for u8 {
    type Weight = i32;
    type Sum = i32;
    const WHOLE: Option<i32> = None;
    /// One half, so that cutting rounds.
    #[inline(always)]
    fn start(shift: u32) -> i32 {
        (1 << shift) >> 1
    }
    #[inline(always)]
    fn add<I: Isa, const N: usize>(sums: &mut [i32; N], weight: i32, x: &[u8; N]) {
        // Hidden: sums of integers may be added up in any order, and the compiler prefers several taps of one sum at a time,
        // which takes five times as long.
        let weight = if N > 8 { std::hint::black_box(weight) } else { weight };
        for i in 0..N {
            sums[i] = sums[i].wrapping_add(weight.wrapping_mul(i32::from(x[i])));
        }
    }
    #[inline(always)]
    fn finish(sum: i32, shift: u32) -> u8 {
        (sum >> shift).clamp(0, 255) as u8
    }
}

/// Resizes the middle dim of a contiguous array of sizes `outer`, `from`, `inner` by `taps`, which must fit it.
pub(crate) fn resize<T: Pixel<Weight = T> + Element>(
    taps: Taps<'_>,
    (from, inner): (usize, usize),
    x: &[T],
    out: &mut [T],
) {
    let weights: Vec<T> = taps.weights.iter().map(|w| cast(*w)).collect();
    resize_by(taps, &weights, 0, (from, inner), x, out);
}

/// [`resize`] of bytes, by weights in units of `2^-shift`, at most 22, instead of those of the taps. Sums are rounded, and cut
/// to what a byte holds.
///
/// # Panics
/// When the taps do not fit the array, or the weights the taps.
pub fn resize_bytes(taps: Taps<'_>, weights: &[i32], shift: u32, shape: (usize, usize), x: &[u8], out: &mut [u8]) {
    resize_by(taps, weights, shift, shape, x, out);
}

/// [`resize`] with weights in units of `2^-shift` instead of those of the taps.
fn resize_by<T: Pixel>(
    taps: Taps<'_>,
    weights: &[T::Weight],
    shift: u32,
    (from, inner): (usize, usize),
    x: &[T],
    out: &mut [T],
) {
    let to = taps.starts.len() - 1;
    if out.is_empty() {
        return;
    }
    assert!(taps.fit(from) && weights.len() == taps.places.len(), "the taps do not fit the dim");
    assert!(out.len().is_multiple_of(to * inner), "the taps do not fit the array");
    assert!(x.len() == out.len() / (to * inner) * from * inner, "the arrays differ in size");
    let each = commonest(taps);
    let picks = each == Some(1) && weights.iter().all(|w| Some(*w) == T::WHOLE);
    let vectors_overhang = (2..CHUNK).contains(&inner);
    let last = taps.places.iter().position(|p| vectors_overhang && *p + 1 == from as i64);
    let inside = last.map_or(to, |last| taps.starts[1..].partition_point(|end| *end <= last as i64));
    let job = Job { taps, weights, shift, each, picks, inside, from, to, inner, x, out: Shared(out.as_mut_ptr()) };
    // Rows of the output: along the dim where it is the innermost one, else along what lies inside it.
    let width = if inner == 1 { to } else { inner };
    let work = width * taps.places.len().div_ceil(to).max(1);
    parallel_for(out.len() / width, GRAIN.div_ceil(work).next_multiple_of(AT_ONCE), &|range| {
        // SAFETY: every row of the output is one piece of work's; the rest was checked.
        unsafe { run::<Rows<T>>((job, range)) };
    });
}

/// How many taps every output has, if all have as many.
fn commonest(taps: Taps<'_>) -> Option<usize> {
    let each = taps.of(0).len();
    taps.starts.windows(2).all(|w| w[1] - w[0] == each as i64).then_some(each)
}

/// One dim's resizing.
#[derive(Clone, Copy)]
struct Job<'a, T: Pixel> {
    taps: Taps<'a>,
    weights: &'a [T::Weight],
    /// The weights are in units of `2^-shift`.
    shift: u32,
    /// How many taps every output has, if all have as many.
    each: Option<usize>,
    /// Whether every output is one place's element.
    picks: bool,
    /// How many outputs, from the first on, do not read the last place.
    inside: usize,
    from: usize,
    to: usize,
    inner: usize,
    x: &'a [T],
    out: Shared<T>,
}

struct Rows<'a, T>(PhantomData<&'a T>);

impl<'a, T: Pixel> Kernel for Rows<'a, T> {
    /// With the rows of the output.
    type Args = (Job<'a, T>, Range<usize>);
    type Output = ();
    const HIGHEST: Level = Level::Avx2;

    #[inline(always)]
    unsafe fn run<I: Isa>((job, rows): Self::Args) {
        // SAFETY: the caller's.
        unsafe {
            if const { I::COMPACT } {
                return job.one_by_one::<I>(rows);
            }
            match job.inner {
                1 => job.along::<I>(rows),
                _ if job.picks => job.moved(rows),
                2 => job.narrow::<I, 2>(rows),
                3..=4 => job.narrow::<I, 4>(rows),
                5..=8 => job.narrow::<I, 8>(rows),
                9..=16 => job.narrow::<I, 16>(rows),
                17..CHUNK => job.narrow::<I, CHUNK>(rows),
                _ => job.wide::<I>(rows),
            }
        }
    }
}

/// Resizing along rows: several of them at a time, so that places and weights are read once for them.
impl<T: Pixel> Job<'_, T> {
    /// These rows of the output, of `to` elements.
    ///
    /// # Safety
    /// The arrays have the sizes that the job says, and nobody else has these rows.
    #[inline(always)]
    unsafe fn along<I: Isa>(self, rows: Range<usize>) {
        let (x, out) = (self.x.as_ptr(), self.out.get());
        let rows = if size_of::<T>() == 1 {
            // SAFETY: the caller's.
            unsafe { self.turned::<I>(rows) }
        } else {
            rows
        };
        let several = rows.start + rows.len() / AT_ONCE * AT_ONCE;
        // SAFETY: rows of the output, which are this call's, and those of the input that they are computed from.
        unsafe {
            for row in (rows.start..several).step_by(AT_ONCE) {
                self.rows::<I, AT_ONCE>(x.add(row * self.from), out.add(row * self.to));
            }
            for row in several..rows.end {
                self.rows::<I, 1>(x.add(row * self.from), out.add(row * self.to));
            }
        }
    }

    /// As many of the rows as are a multiple of [`TURNED`], so many at a time: columns of them are vectors of bytes. Gives
    /// the rest.
    ///
    /// # Safety
    /// As of [`Job::along`].
    #[inline(always)]
    unsafe fn turned<I: Isa>(self, rows: Range<usize>) -> Range<usize> {
        let end = rows.start + rows.len() / TURNED * TURNED;
        if end == rows.start {
            return rows;
        }
        let room = Scratch::<T>::new((self.from + self.to) * TURNED);
        let columns = room.get();
        // SAFETY: room for the columns of the input, and after them for those of the output; the rest is the caller's.
        unsafe {
            let results = columns.add(self.from * TURNED);
            let job = Job { inner: TURNED, ..self };
            for row in (rows.start..end).step_by(TURNED) {
                let (x, out) = (self.x.as_ptr().add(row * self.from), self.out.get().add(row * self.to));
                for i in 0..self.from {
                    for r in 0..TURNED {
                        *columns.add(i * TURNED + r) = *x.add(r * self.from + i);
                    }
                }
                match self.each {
                    Some(2) => job.columns::<I, 2>(columns, results),
                    Some(4) => job.columns::<I, 4>(columns, results),
                    _ => job.columns::<I, 0>(columns, results),
                }
                for r in 0..TURNED {
                    for place in 0..self.to {
                        *out.add(r * self.to + place) = *results.add(place * TURNED + r);
                    }
                }
            }
        }
        end..rows.end
    }

    /// A plane of columns of [`TURNED`] elements, by `K` taps each, or, where that is zero, by as many as they have.
    ///
    /// # Safety
    /// `x` and `out` have `from` and `to` columns, and all outputs have so many taps.
    #[inline(always)]
    unsafe fn columns<I: Isa, const K: usize>(self, x: *const T, out: *mut T) {
        for place in 0..self.to {
            // SAFETY: the caller's.
            unsafe { self.chunk::<I, K, TURNED>(self.taps_of::<K>(place), x, out.add(place * TURNED)) };
        }
    }

    /// `R` rows, by the form that the taps allow.
    ///
    /// # Safety
    /// `x` and `out` have `R` rows of `from` and of `to` elements, whose taps these are.
    #[inline(always)]
    unsafe fn rows<I: Isa, const R: usize>(self, x: *const T, out: *mut T) {
        let taps = self.taps;
        // SAFETY: the caller's.
        unsafe {
            match self.each {
                Some(1) if self.picks => self.picked::<R>(x, out),
                Some(2) => self.summed::<I, R>(x, out, |k| 2 * k..2 * k + 2),
                Some(4) => self.summed::<I, R>(x, out, |k| 4 * k..4 * k + 4),
                _ => self.summed::<I, R>(x, out, |k| taps.of(k)),
            }
        }
    }

    /// Every output is one place's element.
    ///
    /// # Safety
    /// As of [`Job::rows`].
    #[inline(always)]
    unsafe fn picked<const R: usize>(self, x: *const T, out: *mut T) {
        for r in 0..R {
            for o in 0..self.to {
                // SAFETY: the caller's.
                unsafe {
                    *out.add(r * self.to + o) = *x.add(r * self.from + *self.taps.places.get_unchecked(o) as usize)
                };
            }
        }
    }

    /// Output `o` has the taps `of(o)`.
    ///
    /// # Safety
    /// As of [`Job::rows`].
    #[inline(always)]
    unsafe fn summed<I: Isa, const R: usize>(self, x: *const T, out: *mut T, of: impl Fn(usize) -> Range<usize>) {
        for o in 0..self.to {
            let mut sums = [T::start(self.shift); R];
            for k in of(o) {
                // SAFETY: the caller's.
                let (place, weight) =
                    unsafe { (*self.taps.places.get_unchecked(k) as usize, *self.weights.get_unchecked(k)) };
                // SAFETY: as above.
                let mut column = [unsafe { *x.add(place) }; R];
                for (r, element) in column.iter_mut().enumerate() {
                    // SAFETY: as above.
                    *element = unsafe { *x.add(r * self.from + place) };
                }
                T::add::<I, R>(&mut sums, weight, &column);
            }
            for (r, sum) in sums.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { *out.add(r * self.to + o) = T::finish(sum, self.shift) };
            }
        }
    }
}

/// Resizing of a dim outside of others: a row is what lies inside the dim at one place, and every row of the output is a
/// weighted sum of rows of the input.
impl<T: Pixel> Job<'_, T> {
    /// These rows of the output, of at least [`CHUNK`] elements.
    ///
    /// # Safety
    /// As of [`Job::along`].
    #[inline(always)]
    unsafe fn wide<I: Isa>(self, rows: Range<usize>) {
        // SAFETY: the caller's.
        unsafe {
            match self.each {
                Some(2) => self.wide_by::<I, 2>(rows),
                Some(4) => self.wide_by::<I, 4>(rows),
                _ => self.wide_by::<I, 0>(rows),
            }
        }
    }

    /// The plane that a row is in, and the places of the dim from it on, up to the end of the plane or of these rows.
    #[inline(always)]
    fn piece(self, row: usize, end: usize) -> (usize, Range<usize>) {
        let (plane, first) = (row / self.to, row % self.to);
        (plane, first..self.to.min(first + end - row))
    }

    /// The addresses of a plane of the input and of the output.
    ///
    /// # Safety
    /// There are so many planes.
    #[inline(always)]
    unsafe fn plane(self, plane: usize) -> (*const T, *mut T) {
        let (from, to) = (plane * self.from * self.inner, plane * self.to * self.inner);
        // SAFETY: the caller's.
        unsafe { (self.x.as_ptr().add(from), self.out.get().add(to)) }
    }

    /// Rows that are copies.
    ///
    /// # Safety
    /// As of [`Job::along`].
    #[inline(always)]
    unsafe fn moved(self, rows: Range<usize>) {
        let mut row = rows.start;
        while row < rows.end {
            let (plane, places) = self.piece(row, rows.end);
            row += places.len();
            // SAFETY: the caller's.
            unsafe {
                let (x, out) = self.plane(plane);
                for place in places {
                    let from = *self.taps.places.get_unchecked(place) as usize;
                    move_run(x.add(from * self.inner), out.add(place * self.inner), self.inner);
                }
            }
        }
    }

    /// Rows of `K` taps each, or, where that is zero, of as many as they have.
    ///
    /// # Safety
    /// As of [`Job::along`]; all outputs have so many taps.
    #[inline(always)]
    unsafe fn wide_by<I: Isa, const K: usize>(self, rows: Range<usize>) {
        let mut row = rows.start;
        while row < rows.end {
            let (plane, places) = self.piece(row, rows.end);
            row += places.len();
            // SAFETY: the caller's; every chunk lies in its row, the last one at its end.
            unsafe {
                let (x, out) = self.plane(plane);
                for place in places {
                    let (taps, out) = (self.taps_of::<K>(place), out.add(place * self.inner));
                    for at in (0..self.inner).step_by(CHUNK) {
                        let at = at.min(self.inner - CHUNK);
                        self.chunk::<I, K, CHUNK>(taps, x.add(at), out.add(at));
                    }
                }
            }
        }
    }

    /// Rows of at most `V` elements, and of more than half of that: each is computed as `V`, where those after it are there
    /// to be read, and not yet written.
    ///
    /// # Safety
    /// As of [`Job::along`].
    #[inline(always)]
    unsafe fn narrow<I: Isa, const V: usize>(self, rows: Range<usize>) {
        // SAFETY: the caller's.
        unsafe {
            match self.each {
                Some(2) if V <= 4 => self.narrow_by::<I, 2, V>(rows),
                Some(4) if V <= 4 => self.narrow_by::<I, 4, V>(rows),
                _ => self.narrow_by::<I, 0, V>(rows),
            }
        }
    }

    /// [`Job::narrow`] with `K` taps each, or, where that is zero, with as many as they have.
    ///
    /// # Safety
    /// As of [`Job::narrow`]; all outputs have so many taps.
    #[inline(always)]
    unsafe fn narrow_by<I: Isa, const K: usize, const V: usize>(self, rows: Range<usize>) {
        let inner = self.inner;
        let mut row = rows.start;
        while row < rows.end {
            let (plane, places) = self.piece(row, rows.end);
            row += places.len();
            // What a vector holds beyond a row is less than the row after that.
            let mut free = places.end;
            if V > inner && row == rows.end {
                free -= 1;
            }
            if V > inner && (plane + 1) * self.from * inner == self.x.len() {
                free = free.min(self.inside).max(places.start);
            }
            // SAFETY: the caller's.
            unsafe {
                let (x, out) = self.plane(plane);
                for place in places.start..free {
                    self.chunk::<I, K, V>(self.taps_of::<K>(place), x, out.add(place * inner));
                }
                for place in free..places.end {
                    for i in 0..inner {
                        self.chunk::<I, 0, 1>(self.taps_of::<0>(place), x.add(i), out.add(place * inner + i));
                    }
                }
            }
        }
    }

    /// These rows, an element after the other.
    ///
    /// # Safety
    /// As of [`Job::along`].
    #[inline(always)]
    unsafe fn one_by_one<I: Isa>(self, rows: Range<usize>) {
        // (Along the dim, every element is a row of one.)
        let each = if self.inner == 1 { self.to } else { 1 };
        for row in rows.start * each..rows.end * each {
            // SAFETY: the caller's.
            unsafe {
                let (place, (x, out)) = (row % self.to, self.plane(row / self.to));
                for i in 0..self.inner {
                    self.chunk::<I, 0, 1>(self.taps_of::<0>(place), x.add(i), out.add(place * self.inner + i));
                }
            }
        }
    }

    /// The first tap of an output and their number, which is `K`, if that is not zero.
    #[inline(always)]
    fn taps_of<const K: usize>(self, place: usize) -> (usize, usize) {
        if K > 0 {
            return (place * K, K);
        }
        let taps = self.taps.of(place);
        (taps.start, taps.len())
    }

    /// `V` elements of a row: the sums of those of the input that lie from `x` on at place 0 of the dim.
    ///
    /// # Safety
    /// There are so many at all places of these taps, and in the output.
    #[inline(always)]
    unsafe fn chunk<I: Isa, const K: usize, const V: usize>(self, taps: (usize, usize), x: *const T, out: *mut T) {
        let (first, count) = taps;
        if K == 0 && count == 1 && Some(self.weights[first]) == T::WHOLE {
            // Moved, with the sign that a zero would lose in a sum.
            // SAFETY: the caller's.
            return unsafe { *out.cast::<[T; V]>() = *x.add(self.taps.places[first] as usize * self.inner).cast() };
        }
        let mut sums = [T::start(self.shift); V];
        for k in 0..if K > 0 { K } else { count } {
            // SAFETY: the caller's.
            let (weight, x) = unsafe {
                let place = *self.taps.places.get_unchecked(first + k) as usize;
                (*self.weights.get_unchecked(first + k), &*x.add(place * self.inner).cast::<[T; V]>())
            };
            T::add::<I, V>(&mut sums, weight, x);
        }
        // SAFETY: the caller's.
        let out = unsafe { &mut *out.cast::<[T; V]>() };
        for i in 0..V {
            out[i] = T::finish(sums[i], self.shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_weighted_sums() {
        let taps = Taps { starts: &[0, 1, 3, 3], places: &[0, 0, 1], weights: &[1.0, 0.25, 0.75] };
        let mut out = [9.0f64; 6];
        resize(taps, (2, 1), &[4.0, 8.0, -4.0, 0.0], &mut out);
        assert_eq!(out, [4.0, 7.0, 0.0, -4.0, -1.0, 0.0]);
        resize(taps, (2, 2), &[4.0, -4.0, 8.0, 0.0], &mut out);
        assert_eq!(out, [4.0, -4.0, 7.0, -1.0, 0.0, 0.0]);
        let pairs = Taps { starts: &[0, 2, 4], places: &[0, 1, 1, 2], weights: &[0.5, 0.5, 2.0, -1.0] };
        resize(pairs, (3, 1), &[1.0, 3.0, 5.0], &mut out[..2]);
        assert_eq!(out[..2], [2.0, 1.0]);
        assert!(!pairs.fit(2));
        // One tap, none, and three.
        let uneven = Taps { starts: &[0, 1, 1, 4], places: &[1, 0, 1, 1], weights: &[2.0, 1.0, -1.0, 0.5] };
        let mut out = [9.0f64; 3];
        resize(uneven, (2, 1), &[3.0, f64::INFINITY], &mut out);
        assert!(out[0] == f64::INFINITY && out[1] == 0.0 && out[2].is_nan());
        resize(uneven, (2, 1), &[3.0, 4.0], &mut out);
        assert_eq!(out, [8.0, 0.0, 1.0]);
    }

    /// The definition, in the order in which terms are added up.
    fn plain<T: Pixel>(job: (Taps<'_>, &[T::Weight], u32), (from, inner): (usize, usize), x: &[T]) -> Vec<T> {
        let (taps, weights, shift) = job;
        let mut out = Vec::new();
        for plane in x.chunks(from * inner) {
            for place in 0..taps.starts.len() - 1 {
                for i in 0..inner {
                    let mut sum = [T::start(shift)];
                    for k in taps.of(place) {
                        let at = taps.places[k] as usize * inner + i;
                        T::add::<crate::math::Baseline, 1>(&mut sum, weights[k], &[plane[at]]);
                    }
                    out.push(T::finish(sum[0], shift));
                }
            }
        }
        out
    }

    /// Every form: rows inside the dim that are single elements, narrow and wide, and each number of taps, also those that
    /// read the last place first.
    #[test]
    fn all_forms_are_the_definition() {
        let starts = |each: i64| (0..8).map(|i| i * each).collect::<Vec<i64>>();
        let shapes = [starts(1), starts(2), starts(4), starts(3), vec![0, 0, 1, 3, 6, 6, 10, 11]];
        for (starts, inner) in shapes.iter().flat_map(|s| (1..40).chain([64, 65, 100]).map(move |inner| (s, inner))) {
            let count = starts[7] as usize;
            for places in [(|k| k * 3 % 5) as fn(usize) -> usize, |k| 4 - k * 3 % 5, |_| 2]
                .map(|f| (0..count).map(move |k| f(k) as i64))
            {
                let (places, from, outer) = (places.collect::<Vec<_>>(), 5, 3);
                // Values whose products and sums are exact, so that a fused addition is the same.
                let bytes: Vec<i32> = (0..count as i32).map(|k| k * 37 % 64 - 9).collect();
                let whole = vec![1.0; count];
                let shares: Vec<f64> = bytes.iter().map(|b| f64::from(*b) / 16.0).collect();
                let x: Vec<u8> = (0..outer * from * inner).map(|i| (i * 53 % 256) as u8).collect();
                let wide: Vec<f64> = x.iter().map(|x| f64::from(*x) - 100.0).collect();
                let single: Vec<f32> = wide.iter().map(|x| *x as f32).collect();
                let id = format!("{starts:?} {places:?} {inner}");
                for weights in [&whole, &shares] {
                    let taps = Taps { starts, places: &places, weights };
                    let mut out = vec![0.0; outer * 7 * inner];
                    resize(taps, (from, inner), &wide, &mut out);
                    assert_eq!(out, plain((taps, weights, 0), (from, inner), &wide), "{id}");
                    let mut out = vec![0f32; outer * 7 * inner];
                    resize(taps, (from, inner), &single, &mut out);
                    let narrow: Vec<f32> = weights.iter().map(|w| *w as f32).collect();
                    assert_eq!(out, plain((taps, &narrow, 0), (from, inner), &single), "{id}");
                }
                let taps = Taps { starts, places: &places, weights: &shares };
                for shift in [0, 6] {
                    let mut out = vec![0; outer * 7 * inner];
                    resize_bytes(taps, &bytes, shift, (from, inner), &x, &mut out);
                    assert_eq!(out, plain((taps, &bytes, shift), (from, inner), &x), "{id}");
                }
            }
        }
    }

    /// What is only moved keeps its bits.
    #[test]
    fn zeros_keep_their_signs() {
        let taps = Taps { starts: &[0, 1, 2], places: &[1, 0], weights: &[1.0; 2] };
        for inner in 1..70 {
            let x: Vec<f32> = (0..2 * inner).map(|i| if i < inner { -0.0 } else { 1.0 }).collect();
            if inner > 1 {
                let uneven = Taps { starts: &[0, 1, 3], places: &[0, 0, 1], weights: &[1.0, 0.5, 0.5] };
                let mut out = vec![9.0; 2 * inner];
                resize(uneven, (2, inner), &x, &mut out);
                assert!(out[..inner].iter().all(|x| x.to_bits() == (-0f32).to_bits()), "{inner}");
            }
            let mut out = vec![9.0; 2 * inner];
            resize(taps, (2, inner), &x, &mut out);
            assert!(out[..inner].iter().all(|x| *x == 1.0), "{inner}");
            assert!(out[inner..].iter().all(|x| x.to_bits() == (-0f32).to_bits()), "{inner}");
        }
    }

    #[test]
    fn turned_rows_are_the_definition() {
        for (rows, starts) in [(15, [0, 2, 4, 6]), (16, [0, 4, 8, 12]), (37, [0, 1, 3, 6]), (37, [0, 2, 4, 6])] {
            let places: Vec<i64> = (0..starts[3]).map(|k| k * 3 % 5).collect();
            let (weights, bytes) =
                (vec![0.0; places.len()], (0..starts[3] as i32).map(|k| k * 7 - 9).collect::<Vec<_>>());
            let taps = Taps { starts: &starts, places: &places, weights: &weights };
            let x: Vec<u8> = (0..rows * 5).map(|i| (i * 53 % 256) as u8).collect();
            let mut out = vec![0; rows * 3];
            resize_bytes(taps, &bytes, 3, (5, 1), &x, &mut out);
            assert_eq!(out, plain((taps, &bytes, 3), (5, 1), &x), "{rows} {starts:?}");
        }
    }

    #[test]
    fn bytes_are_rounded_and_cut() {
        let taps = Taps { starts: &[0, 1, 2, 3, 4], places: &[0, 1, 1, 1], weights: &[0.0; 4] };
        let mut out = [0; 4];
        resize_bytes(taps, &[1, 1, -1, 300], 1, (2, 1), &[3, 200], &mut out);
        assert_eq!(out, [2, 100, 0, 255]);
    }

    /// Rows that are taken several at once, and those that are left: each as on its own.
    #[test]
    fn rows_together_are_as_rows_alone() {
        let taps: [(&[i64], &[i64], &[f64]); 5] = [
            (&[0, 1, 2, 3], &[2, 0, 1], &[1.0, 1.0, 1.0]),
            (&[0, 2, 4], &[0, 1, 1, 2], &[0.5, 0.5, 2.0, -1.0]),
            (&[0, 4], &[0, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]),
            (&[0, 1, 3, 3], &[1, 1, 2], &[2.0, 0.25, 0.75]),
            (&[0, 3, 6], &[0, 1, 2, 2, 1, 0], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ];
        for (starts, places, weights) in taps {
            let (taps, to) = (Taps { starts, places, weights }, starts.len() - 1);
            for rows in 1..10 {
                let x: Vec<f64> = (0..rows * 3).map(|i| if i % 6 == 0 { f64::INFINITY } else { i as f64 }).collect();
                let mut out = vec![9.0; rows * to];
                resize(taps, (3, 1), &x, &mut out);
                for row in 0..rows {
                    for o in 0..to {
                        let terms = (starts[o] as usize..starts[o + 1] as usize)
                            .map(|k| weights[k] * x[row * 3 + places[k] as usize]);
                        let wanted = terms.fold(0.0, |sum, term| sum + term);
                        assert_eq!(out[row * to + o], wanted, "{starts:?}, row {row} of {rows}, {o}");
                    }
                }
            }
        }
    }
}
