//! Images sampled at given places, and the gradients of that.
//!
//! Each block of places first gets its neighbours along every axis, then the corners that they span: where each is and
//! with which weight. The channels then go through the same corners, and all loops over a block's places vectorise.

mod pixels;

use crate::copy::Shared;
use crate::math::{Float, Isa, Kernel, Level, Number, run, select};
use flambeau_base::iter::GRAIN;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{Element, bf16, f16};
use std::marker::PhantomData;
use std::ops::Range;

/// Where places outside the image lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Nowhere: what is read there is zero.
    Zeros,
    /// At the border.
    Border,
    /// Reflected at the centres of the outermost elements, or at their edges, as often as it takes.
    Reflection,
}

/// How a place reads its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// Two along each axis.
    Linear,
    /// The nearest, of two equally near ones the even.
    Nearest,
    /// Four along each axis, by Keys' kernel ("Cubic convolution interpolation", 1981) with a = -0.75.
    Cubic,
}

/// How places become positions and these values.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    /// Outside the image.
    pub padding: Padding,
    /// Between the elements.
    pub interpolation: Interpolation,
    /// Whether -1 and 1 are the centres of the outermost elements, or their edges.
    pub align_corners: bool,
}

/// Places computed at a time.
const BLOCK: usize = 64;
/// The most corners of a place: four times four, or two to the third.
const CORNERS: usize = 16;
/// The most pairs of corners along the last axis that linear interpolation reads.
const PAIRS: usize = 4;
/// Planes that go through the same corners when their gradients are added up.
const PLANES: usize = 16;

/// The dtypes of images. Numbers are kept in `Wide`; what is computed in two dims is rounded to the dtype after every step,
/// as PyTorch's vectorised kernels do.
pub trait Sampled: Element {
    /// What it is computed in.
    type Wide: Adjacent;
    /// To the dtype and back.
    fn round(x: Self::Wide) -> Self::Wide;
    /// A whole number. (A conversion that takes any number does not vectorise.)
    ///
    /// # Safety
    /// It is one of an `i32`.
    unsafe fn index(x: Self::Wide) -> i32;
    /// The samples, for every image a plane of places for each channel.
    fn sample(s: Sampler, images: &Images<'_, Self::Wide>, out: &mut [Self::Wide]);
    /// The gradient with respect to the images, given that of the samples; `out` must hold zeros.
    fn image_gradient(s: Sampler, images: &Images<'_, Self::Wide>, g: &[Self::Wide], out: &mut [Self::Wide]);
    /// The gradient with respect to the places.
    fn grid_gradient(s: Sampler, images: &Images<'_, Self::Wide>, g: &[Self::Wide], out: &mut [Self::Wide]);
}
macro_rules! sampled {
    ($($t:ty, $wide:ty: |$x:ident| $round:expr;)*) => { $(
        impl Sampled for $t {
            type Wide = $wide;
            #[inline(always)]
            fn round($x: $wide) -> $wide { $round }
            #[inline(always)]
            unsafe fn index(x: $wide) -> i32 {
                // SAFETY: the caller's.
                unsafe { x.to_int_unchecked() }
            }
            // Generic for callers, and compiled here: see `compiled.rs`.
            fn sample(s: Sampler, images: &Images<'_, $wide>, out: &mut [$wide]) {
                sample::<$t>(s, images, out)
            }
            fn image_gradient(s: Sampler, images: &Images<'_, $wide>, g: &[$wide], out: &mut [$wide]) {
                image_gradient::<$t>(s, images, g, out)
            }
            fn grid_gradient(s: Sampler, images: &Images<'_, $wide>, g: &[$wide], out: &mut [$wide]) {
                grid_gradient::<$t>(s, images, g, out)
            }
        }
    )* };
}
sampled! {
    f32, f32: |x| x;
    f64, f64: |x| x;
    f16, f32: |x| Element::to_f32(<f16 as Element>::from_f32(x));
    bf16, f32: |x| Element::to_f32(<bf16 as Element>::from_f32(x));
}

/// The highest level that sampling is compiled for. (Elements come from anywhere: Zen 4 takes 0.96 to 1.07 of the time with
/// AVX-512.)
const HIGHEST: Level = Level::Avx2;

/// What images are computed in.
pub trait Adjacent: Float + Element {
    /// Two elements side by side.
    ///
    /// # Safety
    /// There are two.
    unsafe fn pair(at: *const Self) -> [Self; 2];
}
impl Adjacent for f32 {
    /// Read as one number: a loop over scattered pairs then takes as long as one over single elements.
    #[inline(always)]
    unsafe fn pair(at: *const f32) -> [f32; 2] {
        // SAFETY: the caller's; any bits are a number.
        let both = unsafe { at.cast::<u64>().read_unaligned() };
        let (first, second) = if cfg!(target_endian = "little") { (both, both >> 32) } else { (both >> 32, both) };
        [f32::from_bits(first as u32), f32::from_bits(second as u32)]
    }
}
impl Adjacent for f64 {
    #[inline(always)]
    unsafe fn pair(at: *const f64) -> [f64; 2] {
        // SAFETY: the caller's.
        unsafe { [*at, *at.add(1)] }
    }
}

/// Images of `batch * channels` planes and the places they are sampled at.
#[derive(Clone, Debug)]
pub struct Images<'a, W> {
    /// Images.
    pub batch: usize,
    /// Planes of each image.
    pub channels: usize,
    /// A plane's sizes, two or three of them, whose product an `i32` can hold.
    pub plane: &'a [usize],
    /// Places of each image.
    pub places: usize,
    /// The elements: (batch, channels, plane).
    pub x: &'a [W],
    /// The places, each with the last axis first: (batch, places, axes).
    pub grid: &'a [W],
}

impl<W> Images<'_, W> {
    fn elements(&self) -> usize {
        self.plane.iter().product()
    }

    /// Calls `f` with all blocks, counted image by image, in pieces worth a thread.
    fn blocks(&self, f: &(dyn Fn(Range<usize>) + Sync)) {
        let blocks = self.batch * self.places.div_ceil(BLOCK);
        parallel_for(blocks, GRAIN.div_ceil(4 * BLOCK * self.channels.max(1)), f);
    }

    /// The image and the first place of a block.
    #[inline(always)]
    fn block(&self, number: usize) -> (usize, usize) {
        let blocks = self.places.div_ceil(BLOCK);
        (number / blocks, number % blocks * BLOCK)
    }
}

/// The samples (batch, channels, places).
fn sample<T: Sampled>(s: Sampler, images: &Images<'_, T::Wide>, out: &mut [T::Wide]) {
    if pixels::pay(s, images) {
        return pixels::sample::<T>(s, images, out);
    }
    let out = Shared(out.as_mut_ptr());
    images.blocks(&|blocks| {
        // SAFETY: every block writes its own places.
        unsafe { run::<Forward<T>>((s, images, blocks, out.get())) }
    });
}

/// The gradient with respect to the images, given that of the samples; `out` must hold zeros.
fn image_gradient<T: Sampled>(s: Sampler, images: &Images<'_, T::Wide>, g: &[T::Wide], out: &mut [T::Wide]) {
    if pixels::pay(s, images) {
        return pixels::image_gradient::<T>(s, images, g, out);
    }
    let groups = images.channels.div_ceil(PLANES);
    let out = Shared(out.as_mut_ptr());
    parallel_for(images.batch * groups, GRAIN.div_ceil((images.places * PLANES * 4).max(1)), &|range| {
        for unit in range {
            let first = unit % groups * PLANES;
            let planes = first..images.channels.min(first + PLANES);
            // SAFETY: every group of planes is written by one.
            unsafe { run::<ImageGradient<T>>((s, images, unit / groups, planes, g, out.get())) }
        }
    });
}

/// The gradient with respect to the places.
fn grid_gradient<T: Sampled>(s: Sampler, images: &Images<'_, T::Wide>, g: &[T::Wide], out: &mut [T::Wide]) {
    if pixels::pay(s, images) {
        return pixels::grid_gradient::<T>(s, images, g, out);
    }
    let out = Shared(out.as_mut_ptr());
    images.blocks(&|blocks| {
        // SAFETY: every block writes its own places.
        unsafe { run::<GridGradient<T>>((s, images, blocks, g, out.get())) }
    });
}

/// The neighbours of a block's places along one axis: where (-1: outside), with which weights, and how these change with
/// the place.
struct Axis<W> {
    place: [[i32; BLOCK]; 4],
    weight: [[W; BLOCK]; 4],
    slope: [[W; BLOCK]; 4],
}

/// A position, and how it changes with the place.
type Moved<W> = (W, W);

impl Sampler {
    fn taps(self) -> usize {
        match self.interpolation {
            Interpolation::Linear => 2,
            Interpolation::Nearest => 1,
            Interpolation::Cubic => 4,
        }
    }

    /// From [-1, 1] to positions.
    #[inline(always)]
    fn position<T: Sampled>(self, g: T::Wide, size: T::Wide) -> T::Wide {
        let (one, two) = (T::Wide::ONE, T::Wide::TWO);
        let centres = T::round(T::round(T::round(g + one) / two) * (size - one));
        let edges = T::round(T::round(T::round(T::round(g + one) * size) - one) / two);
        select(self.align_corners, centres, edges)
    }

    /// Moved into the image, as the padding says. At the borders the slope is zero, and NaN is at 0.
    #[inline(always)]
    fn padded<T: Sampled, I: Isa>(self, at: Moved<T::Wide>, size: T::Wide) -> Moved<T::Wide> {
        let at = match self.padding {
            Padding::Zeros => return at,
            Padding::Border => at,
            Padding::Reflection => self.reflected::<T, I>(at, size),
        };
        let last = size - T::Wide::ONE;
        let (low, high) = (at.0 > T::Wide::ZERO, at.0 >= last);
        let place = select(low, select(high, last, at.0), T::Wide::ZERO);
        (place, select(low & !high, at.1, T::Wide::ZERO))
    }

    #[inline(always)]
    fn reflected<T: Sampled, I: Isa>(self, at: Moved<T::Wide>, size: T::Wide) -> Moved<T::Wide> {
        let (zero, half) = (T::Wide::ZERO, T::Wide::HALF);
        let (low, span) = if self.align_corners { (zero, size - T::Wide::ONE) } else { (zero - half, size) };
        let from = T::round(at.0 - low);
        let negative = from < zero;
        let (from, slope) = (select(negative, -from, from), select(negative, -at.1, at.1));
        let flips = T::round(from / span).floor::<I>();
        let rest = T::round(from - T::round(flips * span));
        let odd = (flips * half).floor::<I>() != flips * half;
        let place = T::round(select(odd, T::round(span - rest), rest) + low);
        // An axis of one element has nothing to reflect.
        let some = span > zero;
        (select(some, place, zero), select(some, select(odd, -slope, slope), zero))
    }

    /// The neighbours along an axis of `size` of the places whose numbers `at` gives.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // An index keeps the loops countable, and their bounds constant.
    fn axis<T: Sampled, I: Isa>(self, size: usize, at: &[T::Wide; BLOCK], axis: &mut Axis<T::Wide>) {
        let (zero, one) = (T::Wide::ZERO, T::Wide::ONE);
        let end = size as i32 - 1;
        let size = T::Wide::from_i64(size as i64);
        let slope = if self.align_corners { (size - one) * T::Wide::HALF } else { size * T::Wide::HALF };
        let last = size - one;
        let (far, limit) = (T::Wide::from_f64(-100.0), T::Wide::from_f64(1e9));
        // Also what is not finite is outside, far enough that no neighbour is inside.
        let near = |x: T::Wide| select(x.abs::<I>() < limit, x, far);
        // On an axis so long that its size is rounded, the last position may be, too.
        let index = |x: T::Wide| {
            // SAFETY: it is `near`.
            unsafe { T::index(select((x >= zero) & (x <= last), x, -one)) }.min(end)
        };
        let position = |at: T::Wide| (self.position::<T>(at, size), slope);
        match self.interpolation {
            Interpolation::Nearest => {
                for p in 0..BLOCK {
                    let (x, _) = self.padded::<T, I>(position(at[p]), size);
                    axis.place[0][p] = index(near(x).round::<I>());
                    axis.weight[0][p] = one;
                    axis.slope[0][p] = zero;
                }
            }
            Interpolation::Linear => {
                for p in 0..BLOCK {
                    let (x, slope) = self.padded::<T, I>(position(at[p]), size);
                    let x = near(x);
                    let low = x.floor::<I>();
                    let share = T::round(x - low);
                    axis.place[0][p] = index(low);
                    axis.place[1][p] = index(low + one);
                    axis.weight[0][p] = T::round(one - share);
                    axis.weight[1][p] = share;
                    axis.slope[0][p] = -slope;
                    axis.slope[1][p] = slope;
                }
            }
            Interpolation::Cubic => {
                for p in 0..BLOCK {
                    let (x, slope) = position(at[p]);
                    let x = near(x);
                    let low = x.floor::<I>();
                    let t = T::round(x - low);
                    let u = T::round(one - t);
                    let inner = [near_weight::<T>(t), near_weight::<T>(u)];
                    let outer = [far_weight::<T>(T::round(t + one)), far_weight::<T>(T::round(u + one))];
                    let weights = [outer[0], inner[0], (inner[1].0, -inner[1].1), (outer[1].0, -outer[1].1)];
                    for (k, (weight, change)) in weights.into_iter().enumerate() {
                        let place = low + T::Wide::from_i64(k as i64 - 1);
                        axis.place[k][p] = index(near(self.padded::<T, I>((place, zero), size).0));
                        axis.weight[k][p] = weight;
                        axis.slope[k][p] = change * slope;
                    }
                }
            }
        }
    }
}

/// The neighbours along an axis, in loops for each padding.
struct Neighbours<'a, T>(PhantomData<&'a T>);
impl<'a, T: Sampled> Kernel for Neighbours<'a, T> {
    /// With the axis' size, the block's numbers along it, and where the neighbours go.
    type Args = (Sampler, usize, &'a [T::Wide; BLOCK], &'a mut Axis<T::Wide>);
    type Output = ();
    const HIGHEST: Level = self::HIGHEST;

    #[inline(always)]
    unsafe fn run<I: Isa>((s, size, at, axis): Self::Args) {
        if const { I::COMPACT } {
            return s.axis::<T, I>(size, at, axis);
        }
        match s.padding {
            Padding::Zeros => Sampler { padding: Padding::Zeros, ..s }.axis::<T, I>(size, at, axis),
            Padding::Border => Sampler { padding: Padding::Border, ..s }.axis::<T, I>(size, at, axis),
            Padding::Reflection => Sampler { padding: Padding::Reflection, ..s }.axis::<T, I>(size, at, axis),
        }
    }
}

/// Keys' kernel up to 1 from the centre, and its derivative.
#[inline(always)]
fn near_weight<T: Sampled>(x: T::Wide) -> (T::Wide, T::Wide) {
    let number = T::Wide::from_f64;
    let mut weight = T::round(number(1.25) * x);
    for step in [|w: T::Wide| w - T::Wide::from_f64(2.25), |w| w] {
        weight = T::round(T::round(step(weight)) * x);
    }
    (T::round(weight + T::Wide::ONE), (number(3.75) * x - number(4.5)) * x)
}

/// Keys' kernel from 1 to 2 from the centre, and its derivative.
#[inline(always)]
fn far_weight<T: Sampled>(x: T::Wide) -> (T::Wide, T::Wide) {
    let number = T::Wide::from_f64;
    let weight = T::round(T::round(number(-0.75) * x) + number(3.75));
    let weight = T::round(T::round(weight * x) - T::Wide::from_f64(6.0));
    let weight = T::round(T::round(weight * x) + number(3.0));
    (weight, (number(-2.25) * x + number(7.5)) * x - number(6.0))
}

/// The corners of a block's places.
struct Corners<W> {
    /// Places of the block; the others read nothing.
    len: usize,
    /// Corners of each place.
    count: usize,
    /// Those of one row: along the last axis.
    taps: usize,
    /// The last axis first.
    axes: [Axis<W>; 3],
    /// Where in a plane; -1: outside.
    at: [[i32; BLOCK]; CORNERS],
    /// What can be read in its stead: the first element where it is outside. (Kept, because an index that is known not to
    /// be negative is widened at a cost.)
    from: [[i32; BLOCK]; CORNERS],
    weight: [[W; BLOCK]; CORNERS],
    /// Where two elements of a plane are that hold what can be read of corners `2 * k` and `2 * k + 1`, for linear
    /// interpolation.
    pair: [[i32; BLOCK]; PAIRS],
}

impl<W: Adjacent> Corners<W> {
    /// Room for those in planes of `n` dims; where there is no third, it changes nothing.
    #[inline(always)]
    fn new(s: Sampler, n: usize) -> Corners<W> {
        let axis = || Axis { place: [[0; BLOCK]; 4], weight: [[W::ONE; BLOCK]; 4], slope: [[W::ZERO; BLOCK]; 4] };
        let taps = s.taps();
        Corners {
            len: 0,
            count: taps.pow(n as u32),
            taps,
            axes: [axis(), axis(), axis()],
            at: [[-1; BLOCK]; CORNERS],
            from: [[0; BLOCK]; CORNERS],
            weight: [[W::ZERO; BLOCK]; CORNERS],
            pair: [[0; BLOCK]; PAIRS],
        }
    }

    /// Those of the places from `start` on.
    #[inline(always)]
    fn find<T: Sampled<Wide = W>>(&mut self, s: Sampler, images: &Images<'_, W>, image: usize, start: usize) {
        let (c, n) = (self, images.plane.len());
        c.len = BLOCK.min(images.places - start);
        let grid = &images.grid[(image * images.places + start) * n..][..c.len * n];
        let mut numbers = [[W::ZERO; BLOCK]; 3];
        match n {
            2 => along_axes::<W, 2>(grid, &mut numbers),
            _ => along_axes::<W, 3>(grid, &mut numbers),
        }
        for (a, (axis, numbers)) in c.axes[..n].iter_mut().zip(&numbers).enumerate() {
            // SAFETY: slices; compiled apart, so that the callers' code holds none of it.
            unsafe { run::<Neighbours<T>>((s, images.plane[n - 1 - a], numbers, axis)) };
        }
        let width = images.plane[n - 1] as i32;
        let height = images.plane[n - 2] as i32;
        for k in 0..c.count {
            let [x, y, z] = c.places(k);
            for p in 0..BLOCK {
                let (i, j, l) = (c.axes[0].place[x][p], c.axes[1].place[y][p], c.axes[2].place[z][p]);
                let outside = (i | j | l) < 0;
                c.at[k][p] = select(outside, -1, ((l * height + j) * width) + i);
                let flat = T::round(c.axes[0].weight[x][p] * c.axes[1].weight[y][p]);
                c.weight[k][p] = flat * c.axes[2].weight[z][p];
            }
            c.at[k][c.len..].fill(-1);
            for (from, at) in c.from[k].iter_mut().zip(&c.at[k]) {
                *from = (*at).max(0);
            }
        }
    }

    /// Finds the pairs of linear interpolation, in planes of at least two elements.
    #[inline(always)]
    fn pair_up(&mut self, elements: usize) {
        let last = elements as i32 - 2;
        for k in 0..self.count / 2 {
            for p in 0..BLOCK {
                self.pair[k][p] = self.at[2 * k][p].max(self.at[2 * k + 1][p] - 1).clamp(0, last);
            }
        }
    }

    /// How the corners' weights change along each of `n` axes.
    #[inline(always)]
    fn slopes(&self, n: usize, slopes: &mut [[[W; BLOCK]; CORNERS]; 3]) {
        for (a, slopes) in slopes[..n].iter_mut().enumerate() {
            for (k, slopes) in slopes[..self.count].iter_mut().enumerate() {
                let places = self.places(k);
                for (p, slope) in slopes.iter_mut().enumerate() {
                    let factor = |b: usize| {
                        let axis = &self.axes[b];
                        if a == b { axis.slope[places[b]][p] } else { axis.weight[places[b]][p] }
                    };
                    *slope = factor(0) * factor(1) * factor(2);
                }
            }
        }
    }

    /// Which neighbour along each axis corner `k` is.
    #[inline(always)]
    fn places(&self, k: usize) -> [usize; 3] {
        [k % self.taps, k / self.taps % self.taps, k / self.taps / self.taps]
    }
}

/// The numbers of places along each of `N` axes.
#[inline(always)]
fn along_axes<W: Copy, const N: usize>(grid: &[W], numbers: &mut [[W; BLOCK]; 3]) {
    for (p, place) in grid.as_chunks::<N>().0.iter().enumerate() {
        for a in 0..N {
            numbers[a][p] = place[a];
        }
    }
}

impl<W: Adjacent> Corners<W> {
    /// What is at a corner of a place: zero where that is outside, whatever stands in the plane.
    ///
    /// # Safety
    /// The corners were found in planes of this size.
    #[inline(always)]
    unsafe fn read(&self, plane: *const W, corner: usize, place: usize) -> W {
        // SAFETY: a plane has at least one element.
        let value = unsafe { *plane.offset(self.from[corner][place] as isize) };
        select(self.at[corner][place] < 0, W::ZERO, value)
    }

    /// What is at corners `2 * pair` and `2 * pair + 1` of a place.
    ///
    /// # Safety
    /// As [`Corners::read`], and they were paired up.
    #[inline(always)]
    unsafe fn read_pair(&self, plane: *const W, pair: usize, place: usize) -> [W; 2] {
        let start = self.pair[pair][place];
        let at = [self.at[2 * pair][place], self.at[2 * pair + 1][place]];
        // SAFETY: both elements are in the plane.
        let [first, second] = unsafe { W::pair(plane.offset(start as isize)) };
        let low = select(at[0] == start, first, second);
        let high = select(at[1] == start, first, second);
        [select(at[0] < 0, W::ZERO, low), select(at[1] < 0, W::ZERO, high)]
    }
}

struct Forward<'a, T>(PhantomData<&'a T>);
impl<'a, T: Sampled> Kernel for Forward<'a, T> {
    /// With the blocks, and where all samples go.
    type Args = (Sampler, &'a Images<'a, T::Wide>, Range<usize>, *mut T::Wide);
    type Output = ();
    const HIGHEST: Level = self::HIGHEST;

    #[inline(always)]
    unsafe fn run<I: Isa>((s, images, blocks, out): Self::Args) {
        let mut c = Corners::new(s, images.plane.len());
        let paired = s.interpolation == Interpolation::Linear && images.elements() > 1;
        for block in blocks {
            let (image, start) = images.block(block);
            c.find::<T>(s, images, image, start);
            if paired {
                c.pair_up(images.elements());
            }
            for channel in 0..images.channels {
                let plane = image * images.channels + channel;
                let x = images.x[plane * images.elements()..].as_ptr();
                let mut sum = [T::Wide::ZERO; BLOCK];
                // SAFETY: a corner is in the plane, or outside.
                unsafe {
                    match s.interpolation {
                        Interpolation::Nearest => {
                            for (p, sum) in sum.iter_mut().enumerate() {
                                *sum = c.read(x, 0, p);
                            }
                        }
                        Interpolation::Linear if paired => {
                            for k in 0..c.count / 2 {
                                for (p, sum) in sum.iter_mut().enumerate() {
                                    let [low, high] = c.read_pair(x, k, p);
                                    let partial = T::round(*sum + T::round(low * c.weight[2 * k][p]));
                                    *sum = T::round(partial + T::round(high * c.weight[2 * k + 1][p]));
                                }
                            }
                        }
                        Interpolation::Linear => {
                            for k in 0..c.count {
                                for (p, sum) in sum.iter_mut().enumerate() {
                                    *sum = T::round(*sum + T::round(c.read(x, k, p) * c.weight[k][p]));
                                }
                            }
                        }
                        Interpolation::Cubic => {
                            for row in 0..c.taps {
                                let mut part = [T::Wide::ZERO; BLOCK];
                                for tap in 0..c.taps {
                                    for (p, part) in part.iter_mut().enumerate() {
                                        let value = c.read(x, row * c.taps + tap, p);
                                        *part = T::round(*part + T::round(value * c.axes[0].weight[tap][p]));
                                    }
                                }
                                for (p, sum) in sum.iter_mut().enumerate() {
                                    *sum = T::round(*sum + T::round(part[p] * c.axes[1].weight[row][p]));
                                }
                            }
                        }
                    }
                    // The block's places of this plane of samples.
                    let out = out.add(plane * images.places + start);
                    match c.len {
                        BLOCK => out.cast::<[T::Wide; BLOCK]>().write(sum),
                        len => std::ptr::copy_nonoverlapping(sum.as_ptr(), out, len),
                    }
                }
            }
        }
    }
}

struct ImageGradient<'a, T>(PhantomData<&'a T>);
impl<'a, T: Sampled> Kernel for ImageGradient<'a, T> {
    /// With the image, its channels, the samples' gradient and where that of all images goes.
    type Args = (Sampler, &'a Images<'a, T::Wide>, usize, Range<usize>, &'a [T::Wide], *mut T::Wide);
    type Output = ();
    const HIGHEST: Level = self::HIGHEST;

    #[inline(always)]
    unsafe fn run<I: Isa>((s, images, image, channels, g, out): Self::Args) {
        let mut c = Corners::new(s, images.plane.len());
        for start in (0..images.places).step_by(BLOCK) {
            c.find::<T>(s, images, image, start);
            for channel in channels.clone() {
                let plane = image * images.channels + channel;
                let g = &g[plane * images.places + start..][..c.len];
                // SAFETY: the plane is this call's alone, and corners are in it.
                unsafe {
                    let out = out.add(plane * images.elements());
                    for k in 0..c.count {
                        for (p, &g) in g.iter().enumerate() {
                            if c.at[k][p] >= 0 {
                                *out.add(c.at[k][p] as usize) += g * c.weight[k][p];
                            }
                        }
                    }
                }
            }
        }
    }
}

struct GridGradient<'a, T>(PhantomData<&'a T>);
impl<'a, T: Sampled> Kernel for GridGradient<'a, T> {
    /// With the blocks, the samples' gradient and where that of all places goes.
    type Args = (Sampler, &'a Images<'a, T::Wide>, Range<usize>, &'a [T::Wide], *mut T::Wide);
    type Output = ();
    const HIGHEST: Level = self::HIGHEST;

    #[inline(always)]
    unsafe fn run<I: Isa>((s, images, blocks, g, out): Self::Args) {
        let n = images.plane.len();
        let mut c = Corners::new(s, n);
        for block in blocks {
            let (image, start) = images.block(block);
            c.find::<T>(s, images, image, start);
            let mut slopes = [[[T::Wide::ZERO; BLOCK]; CORNERS]; 3];
            c.slopes(n, &mut slopes);
            let mut sums = [[T::Wide::ZERO; BLOCK]; 3];
            for channel in 0..images.channels {
                let plane = image * images.channels + channel;
                let x = images.x[plane * images.elements()..].as_ptr();
                let mut given = [T::Wide::ZERO; BLOCK];
                given[..c.len].copy_from_slice(&g[plane * images.places + start..][..c.len]);
                for k in 0..c.count {
                    for p in 0..BLOCK {
                        // SAFETY: a corner is in the plane, or outside.
                        let value = unsafe { c.read(x, k, p) } * given[p];
                        for (sum, slopes) in sums[..n].iter_mut().zip(&slopes) {
                            sum[p] += value * slopes[k][p];
                        }
                    }
                }
            }
            for p in 0..c.len {
                for (a, sum) in sums[..n].iter().enumerate() {
                    // SAFETY: the block's places.
                    unsafe { *out.add((image * images.places + start + p) * n + a) = sum[p] };
                }
            }
        }
    }
}
