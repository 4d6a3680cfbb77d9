//! Sampling with the pixels of several planes side by side: a corner of a place is then one vector, and not an element of
//! each plane.

use super::{Adjacent, BLOCK, CORNERS, Corners, HIGHEST, Images, Interpolation, Sampled, Sampler};
use crate::buffer::Buffer;
use crate::copy::Shared;
use crate::copy::transpose::turn;
use crate::math::{Isa, Kernel, Level, Number, level, run, select};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::iter::GRAIN;
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;
use std::ops::Range;

/// Planes whose pixels lie side by side.
const LANES: usize = 16;

/// The planes of a pixel.
type Pixel<W> = [W; LANES];

/// Groups of planes whose gradients go through the same corners.
const GROUPS: usize = 2;

/// Whether pixels pay: there are enough planes, and enough of the images is read.
pub(super) fn pay<W>(s: Sampler, images: &Images<'_, W>) -> bool {
    let read = images.places * s.taps().pow(images.plane.len() as u32);
    let pays = images.channels >= 3 && read >= images.elements();
    pays && level().has_fast_paths() && FastPath::SamplePixels.is_on()
}

impl<W: Adjacent> Images<'_, W> {
    fn groups(&self) -> usize {
        self.channels.div_ceil(LANES)
    }

    /// The first plane of a group of an image, and how many the group has.
    fn planes(&self, image: usize, group: usize) -> (usize, usize) {
        let first = group * LANES;
        (image * self.channels + first, LANES.min(self.channels - first))
    }

    /// The pixels of all groups of all images, each followed by one of zeros.
    fn pixels(&self, room: &mut Buffer<Pixel<W>>) -> *const Pixel<W> {
        let (elements, groups) = (self.elements(), self.groups());
        let pixels = Shared(room.room(self.batch * groups * (elements + 1)));
        parallel_for(self.batch * groups, GRAIN.div_ceil((elements * LANES).max(1)), &|range| {
            for unit in range {
                let (first, planes) = self.planes(unit / groups, unit % groups);
                // SAFETY: each unit has its own pixels, of which those of planes that are missing are written here.
                unsafe {
                    let to = pixels.get().add(unit * (elements + 1));
                    if planes < LANES {
                        to.write_bytes(0, elements);
                    }
                    to.add(elements).write([W::ZERO; LANES]);
                    turn(self.x.as_ptr().add(first * elements), elements, to.cast(), LANES, (planes, elements));
                }
            }
        });
        pixels.get()
    }
}

/// Which pixel each corner of a block's places is; those outside are the one after the last.
type Slots = [[u32; BLOCK]; CORNERS];

#[inline(always)]
fn find_slots<W>(c: &Corners<W>, elements: usize, slots: &mut Slots) {
    for (slots, at) in slots[..c.count].iter_mut().zip(&c.at) {
        for (slot, at) in slots.iter_mut().zip(at) {
            *slot = select(*at < 0, elements as u32, *at as u32);
        }
    }
}

/// [`super::sample`] of images for which it pays.
pub(super) fn sample<T: Sampled>(s: Sampler, images: &Images<'_, T::Wide>, out: &mut [T::Wide]) {
    let mut room = Buffer::default();
    let (pixels, out) = (Shared(images.pixels(&mut room).cast_mut()), Shared(out.as_mut_ptr()));
    images.blocks(&|blocks| {
        // SAFETY: every block writes its own places.
        unsafe { run::<Forward<T>>((s, images, pixels.get(), blocks, out.get())) }
    });
}

/// [`super::image_gradient`] of images for which it pays.
pub(super) fn image_gradient<T: Sampled>(s: Sampler, images: &Images<'_, T::Wide>, g: &[T::Wide], out: &mut [T::Wide]) {
    let units = images.groups().div_ceil(GROUPS);
    let out = Shared(out.as_mut_ptr());
    parallel_for(images.batch * units, GRAIN.div_ceil((images.places * LANES).max(1)), &|range| {
        let mut room = Buffer::default();
        for unit in range {
            let (image, first) = (unit / units, unit % units * GROUPS);
            let groups = first..images.groups().min(first + GROUPS);
            let pixels = room.room(groups.len() * (images.elements() + 1));
            // SAFETY: there is room for the groups; every group's planes are written by one.
            unsafe {
                run::<ImageGradient<T>>((s, images, (image, groups.clone()), g, pixels));
                for (at, group) in groups.enumerate() {
                    let (plane, planes) = images.planes(image, group);
                    let from = pixels.add(at * (images.elements() + 1));
                    let to = out.get().add(plane * images.elements());
                    turn(from.cast(), LANES, to, images.elements(), (images.elements(), planes));
                }
            }
        }
    });
}

/// [`super::grid_gradient`] of images for which it pays.
pub(super) fn grid_gradient<T: Sampled>(s: Sampler, images: &Images<'_, T::Wide>, g: &[T::Wide], out: &mut [T::Wide]) {
    let mut room = Buffer::default();
    let (pixels, out) = (Shared(images.pixels(&mut room).cast_mut()), Shared(out.as_mut_ptr()));
    images.blocks(&|blocks| {
        // SAFETY: every block writes its own places.
        unsafe { run::<GridGradient<T>>((s, images, pixels.get(), blocks, g, out.get())) }
    });
}

struct Forward<'a, T>(PhantomData<&'a T>);
impl<'a, T: Sampled> Kernel for Forward<'a, T> {
    /// With the pixels, the blocks, and where all samples go.
    type Args = (Sampler, &'a Images<'a, T::Wide>, *const Pixel<T::Wide>, Range<usize>, *mut T::Wide);
    type Output = ();
    const HIGHEST: Level = HIGHEST;
    const FAST_PATH: bool = true;

    #[inline(always)]
    unsafe fn run<I: Isa>((s, images, pixels, blocks, out): Self::Args) {
        let mut c = Corners::new(s, images.plane.len());
        let mut slots = [[0; BLOCK]; CORNERS];
        let mut samples = [[T::Wide::ZERO; LANES]; BLOCK];
        for block in blocks {
            let (image, start) = images.block(block);
            c.find::<T>(s, images, image, start);
            find_slots(&c, images.elements(), &mut slots);
            for group in 0..images.groups() {
                let (plane, planes) = images.planes(image, group);
                // SAFETY: a slot is one of the group's pixels; a group's samples of the block's places.
                unsafe {
                    let x = pixels.add((image * images.groups() + group) * (images.elements() + 1));
                    for (p, sample) in samples[..c.len].iter_mut().enumerate() {
                        let pixel = |corner: usize| *x.add(slots[corner][p] as usize);
                        *sample = match s.interpolation {
                            Interpolation::Nearest => pixel(0),
                            Interpolation::Linear => weighted::<T>(c.count, |k| (pixel(k), c.weight[k][p])),
                            Interpolation::Cubic => weighted::<T>(c.taps, |row| {
                                let part = weighted::<T>(c.taps, |k| (pixel(row * c.taps + k), c.axes[0].weight[k][p]));
                                (part, c.axes[1].weight[row][p])
                            }),
                        };
                    }
                    let to = out.add(plane * images.places + start);
                    turn(samples.as_ptr().cast(), LANES, to, images.places, (c.len, planes));
                }
            }
        }
    }
}

/// The sum of `n` pixels with their weights, rounded at every step.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
fn weighted<T: Sampled>(n: usize, term: impl Fn(usize) -> (Pixel<T::Wide>, T::Wide)) -> Pixel<T::Wide> {
    let mut sum = [T::Wide::ZERO; LANES];
    for k in 0..n {
        let (pixel, weight) = term(k);
        for l in 0..LANES {
            sum[l] = T::round(sum[l] + T::round(pixel[l] * weight));
        }
    }
    sum
}

/// The gradient of a block's samples of some planes, by places.
///
/// # Safety
/// There are that many planes, and places from `start` on.
#[inline(always)]
unsafe fn turned_gradient<W: Adjacent>(
    images: &Images<'_, W>,
    (plane, planes): (usize, usize),
    (start, len): (usize, usize),
    g: &[W],
    to: &mut [Pixel<W>; BLOCK],
) {
    let from = &g[plane * images.places + start..];
    // SAFETY: the caller's; the lanes of planes that are missing stay.
    unsafe { turn(from.as_ptr(), images.places, to.as_mut_ptr().cast(), LANES, (planes, len)) }
}

struct ImageGradient<'a, T>(PhantomData<&'a T>);
impl<'a, T: Sampled> Kernel for ImageGradient<'a, T> {
    /// With an image and groups of it, the samples' gradient and where that of the groups' pixels goes.
    type Args = (Sampler, &'a Images<'a, T::Wide>, (usize, Range<usize>), &'a [T::Wide], *mut Pixel<T::Wide>);
    type Output = ();
    const HIGHEST: Level = HIGHEST;
    const FAST_PATH: bool = true;

    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
    unsafe fn run<I: Isa>((s, images, (image, groups), g, out): Self::Args) {
        let pixels = images.elements() + 1;
        // SAFETY: the groups' pixels; zero is all bits zero.
        unsafe { out.write_bytes(0, groups.len() * pixels) };
        let mut c = Corners::new(s, images.plane.len());
        let mut slots = [[0; BLOCK]; CORNERS];
        let mut given = [[T::Wide::ZERO; LANES]; BLOCK];
        for start in (0..images.places).step_by(BLOCK) {
            c.find::<T>(s, images, image, start);
            find_slots(&c, images.elements(), &mut slots);
            for (at, group) in groups.clone().enumerate() {
                // SAFETY: a slot is one of the group's pixels.
                unsafe {
                    turned_gradient(images, images.planes(image, group), (start, c.len), g, &mut given);
                    let out = out.add(at * pixels);
                    for (p, g) in given[..c.len].iter().enumerate() {
                        for k in 0..c.count {
                            let (to, weight) = (out.add(slots[k][p] as usize), c.weight[k][p]);
                            let mut sum = *to;
                            for l in 0..LANES {
                                sum[l] = g[l].mul_add::<I>(weight, sum[l]);
                            }
                            *to = sum;
                        }
                    }
                }
            }
        }
    }
}

struct GridGradient<'a, T>(PhantomData<&'a T>);
impl<'a, T: Sampled> Kernel for GridGradient<'a, T> {
    /// With the pixels, the blocks, the samples' gradient and where that of all places goes.
    type Args = (Sampler, &'a Images<'a, T::Wide>, *const Pixel<T::Wide>, Range<usize>, &'a [T::Wide], *mut T::Wide);
    type Output = ();
    const HIGHEST: Level = HIGHEST;
    const FAST_PATH: bool = true;

    #[inline(always)]
    unsafe fn run<I: Isa>((s, images, pixels, blocks, g, out): Self::Args) {
        match images.plane.len() {
            // SAFETY: the caller's.
            2 => unsafe { grid_gradients::<I, T, 2>(s, images, pixels, blocks, g, out) },
            // SAFETY: the caller's.
            _ => unsafe { grid_gradients::<I, T, 3>(s, images, pixels, blocks, g, out) },
        }
    }
}

/// [`GridGradient`] of planes with `N` axes.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
unsafe fn grid_gradients<I: Isa, T: Sampled, const N: usize>(
    s: Sampler,
    images: &Images<'_, T::Wide>,
    pixels: *const Pixel<T::Wide>,
    blocks: Range<usize>,
    g: &[T::Wide],
    out: *mut T::Wide,
) {
    let mut c = Corners::new(s, N);
    let mut slots = [[0; BLOCK]; CORNERS];
    let mut slopes = [[[T::Wide::ZERO; BLOCK]; CORNERS]; 3];
    let mut given = vec![[[T::Wide::ZERO; LANES]; BLOCK]; images.groups()];
    for block in blocks {
        let (image, start) = images.block(block);
        c.find::<T>(s, images, image, start);
        find_slots(&c, images.elements(), &mut slots);
        c.slopes(N, &mut slopes);
        for (group, given) in given.iter_mut().enumerate() {
            // SAFETY: the group's planes and the block's places.
            unsafe { turned_gradient(images, images.planes(image, group), (start, c.len), g, given) };
        }
        for p in 0..c.len {
            let mut sums = [[T::Wide::ZERO; LANES]; N];
            for (group, given) in given.iter().enumerate() {
                let g = &given[p];
                for k in 0..c.count {
                    let at = (image * images.groups() + group) * (images.elements() + 1) + slots[k][p] as usize;
                    // SAFETY: a slot is one of the group's pixels.
                    let pixel = unsafe { *pixels.add(at) };
                    let mut values = [T::Wide::ZERO; LANES];
                    for l in 0..LANES {
                        values[l] = pixel[l] * g[l];
                    }
                    for a in 0..N {
                        let slope = slopes[a][k][p];
                        for l in 0..LANES {
                            sums[a][l] = values[l].mul_add::<I>(slope, sums[a][l]);
                        }
                    }
                }
            }
            for (a, sums) in sums.into_iter().enumerate() {
                // SAFETY: the block's places.
                unsafe { *out.add((image * images.places + start + p) * N + a) = joined(sums) };
            }
        }
    }
}

/// The sum of a pixel's lanes.
#[inline(always)]
fn joined<W: Adjacent>(lanes: Pixel<W>) -> W {
    crate::norm::rows::joined(lanes, |a, b| a + b)
}
