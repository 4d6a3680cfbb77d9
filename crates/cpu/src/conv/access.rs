//! Reading and writing tensors of a dtype in the type that is computed in, and the staging of padded tiles.

use super::geometry::{Axis, TileRange};
use super::simd::{Number, Simd};
use crate::buffer::aligned;
use crate::copy::cast_strip;
use crate::prefetch::prefetch_run;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::{DType, Element, bf16, f16};

/// How runs of a tensor's elements are read and written as numbers of type `E`.
#[derive(Clone, Copy)]
pub(crate) struct Access<E> {
    /// Reads `len` elements that are `stride` elements apart.
    pub load: unsafe fn(*const u8, usize, usize, *mut E),
    /// Writes `len` numbers to places `stride` elements apart.
    pub store: unsafe fn(*const E, *mut u8, usize, usize),
    /// Bytes of an element.
    pub size: usize,
    /// Whether the elements are of type `E` themselves.
    pub same: bool,
}

/// Element types and the number they are computed in.
pub(crate) trait Stored: Element {
    /// The type of the arithmetic: integers use one that wraps to the same bits.
    type Number: Number;
    /// Reads.
    fn widen(self) -> Self::Number;
    /// Writes.
    fn narrow(x: Self::Number) -> Self;
    /// Reads a contiguous run.
    #[inline]
    fn widen_run(source: &[Self], target: &mut [Self::Number]) {
        target.iter_mut().zip(source).for_each(|(t, s)| *t = s.widen());
    }
    /// Writes a contiguous run.
    #[inline]
    fn narrow_run(source: &[Self::Number], target: &mut [Self]) {
        target.iter_mut().zip(source).for_each(|(t, s)| *t = Self::narrow(*s));
    }
}

macro_rules! stored {
    ($($t:ty, $number:ty, |$x:ident| $widen:expr, |$y:ident| $narrow:expr;)*) => { $(
        impl Stored for $t {
            type Number = $number;
            #[inline(always)]
            fn widen(self) -> $number { let $x = self; $widen }
            #[inline(always)]
            fn narrow($y: $number) -> $t { $narrow }
        }
    )* };
}
stored! {
    u8, i64, |x| x as i64, |y| y as u8;
    u16, i64, |x| x as i64, |y| y as u16;
    u32, i64, |x| x as i64, |y| y as u32;
    u64, i64, |x| x as i64, |y| y as u64;
    i8, i64, |x| x as i64, |y| y as i8;
    i16, i64, |x| x as i64, |y| y as i16;
    i32, i64, |x| x as i64, |y| y as i32;
    i64, i64, |x| x, |y| y;
    f32, f32, |x| x, |y| y;
    f64, f64, |x| x, |y| y;
}

macro_rules! stored_half {
    ($($t:ty)*) => { $(
        impl Stored for $t {
            type Number = f32;
            #[inline(always)]
            fn widen(self) -> f32 {
                Element::to_f32(self)
            }
            #[inline(always)]
            fn narrow(x: f32) -> $t {
                Element::from_f32(x)
            }
            fn widen_run(source: &[$t], target: &mut [f32]) {
                let (n, strip) = (source.len().min(target.len()), cast_strip(<$t>::DTYPE, DType::F32));
                // SAFETY: both have `n` contiguous elements, apart from each other.
                unsafe { strip(source.as_ptr().cast(), 2, target.as_mut_ptr().cast(), 4, n) }
            }
            fn narrow_run(source: &[f32], target: &mut [$t]) {
                let (n, strip) = (source.len().min(target.len()), cast_strip(DType::F32, <$t>::DTYPE));
                // SAFETY: as above.
                unsafe { strip(source.as_ptr().cast(), 4, target.as_mut_ptr().cast(), 2, n) }
            }
        }
    )* };
}
stored_half! { f16 bf16 }

unsafe fn load<T: Stored>(source: *const u8, stride: usize, len: usize, target: *mut T::Number) {
    let source = source.cast::<T>();
    // SAFETY: the caller's runs have `len` elements; the numbers are plain values, written before they are read.
    unsafe {
        if stride == 1 {
            T::widen_run(std::slice::from_raw_parts(source, len), std::slice::from_raw_parts_mut(target, len));
        } else {
            for i in 0..len {
                *target.add(i) = (*source.add(i * stride)).widen();
            }
        }
    }
}

unsafe fn store<T: Stored>(source: *const T::Number, target: *mut u8, stride: usize, len: usize) {
    let target = target.cast::<T>();
    // SAFETY: the caller's runs have `len` elements.
    unsafe {
        if stride == 1 {
            T::narrow_run(std::slice::from_raw_parts(source, len), std::slice::from_raw_parts_mut(target, len));
        } else {
            for i in 0..len {
                *target.add(i * stride) = T::narrow(*source.add(i));
            }
        }
    }
}

impl<E: Number> Access<E> {
    /// Access to elements of type `T`.
    pub(crate) fn of<T: Stored<Number = E>>() -> Access<E> {
        Access {
            load: load::<T>,
            store: store::<T>,
            size: size_of::<T>(),
            same: std::any::TypeId::of::<T>() == std::any::TypeId::of::<E>(),
        }
    }
}

/// Where the positions of a staged tile lie. All distances are in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    /// Between channels.
    pub channel: usize,
    /// Between images.
    pub image: usize,
    /// Between neighbours along each axis.
    pub axis: [usize; 3],
    /// Between the runs of neighbouring residues of each axis (planes only).
    pub residue: [usize; 3],
}

/// The staging of a gather's source for planes: each channel of a tile becomes one zero-padded plane per combination
/// of residues, so that every tap of every position is at a fixed distance and, where neighbours must be, rows are
/// contiguous for any stride.
#[derive(Clone, Copy)]
pub(crate) struct PlaneStage {
    /// Whether the source is used where it is.
    pub in_place: bool,
    /// The distance in the source between neighbours in a plane: one where residues are kept together.
    steps: [usize; 3],
    /// The distances.
    pub staged: Staged,
}

impl PlaneStage {
    /// For tiles of at most `images` images and `size` positions. Where these need not be neighbours in every plane, an axis
    /// of which every residue is read is not `split`.
    pub(crate) fn new(
        axes: &[Axis; 3],
        images: usize,
        size: [usize; 3],
        same: bool,
        channels: usize,
        image_stride: usize,
        split: bool,
    ) -> PlaneStage {
        let inside = axes.iter().all(Axis::inside) && FastPath::ConvInPlace.is_on();
        let whole = |a: &Axis| !split && (same && inside || a.residues.len() == a.step);
        let steps = std::array::from_fn(|a| if whole(&axes[a]) { 1 } else { axes[a].step });
        let source = axes[1].source * axes[2].source;
        let plane = source * axes[0].source;
        let in_place =
            same && inside && steps == [1; 3] && channels * plane + images * image_stride < u32::MAX as usize;
        if in_place {
            let axis = [source, axes[2].source, 1];
            let staged = Staged { channel: plane, image: image_stride, axis, residue: [0; 3] };
            return PlaneStage { in_place, steps, staged };
        }
        let places: [usize; 3] = std::array::from_fn(|a| places(&axes[a], steps[a], size[a]));
        let run = places[0] * places[1] * places[2];
        let residues: [usize; 3] = std::array::from_fn(|a| residues(&axes[a], steps[a]).len().max(1));
        let image = run * residues[0] * residues[1] * residues[2];
        let staged = Staged {
            channel: image * images,
            image,
            axis: [places[1] * places[2], places[2], 1],
            residue: [run * residues[1] * residues[2], run * residues[2], run],
        };
        PlaneStage { in_place, steps, staged }
    }

    /// The distance of the next position along each axis.
    fn neighbours(&self, axes: &[Axis; 3]) -> [usize; 3] {
        std::array::from_fn(|a| axes[a].step / self.steps[a] * self.staged.axis[a])
    }

    /// Stages `channels` channels of a tile; `source` is the first of them in the tile's first image. Returns where
    /// tap distances start from.
    ///
    /// # Safety
    /// `scratch` holds `channels * self.staged.channel` numbers; `source` is valid for the tile's images.
    #[inline(always)]
    pub(crate) unsafe fn fill<S: Simd>(
        &self,
        axes: &[Axis; 3],
        tile: &TileRange,
        access: &Access<S::Element>,
        source: *const u8,
        image_stride: usize,
        channels: usize,
        scratch: *mut S::Element,
    ) -> *const S::Element {
        let [depth, height, width] = axes;
        let plane = depth.source * height.source * width.source;
        if self.in_place {
            return source.cast::<S::Element>().wrapping_offset(from(axes, tile, &self.staged.axis));
        }
        let st = &self.staged;
        let position =
            |a: usize, residue: usize| axes[a].low + residue as isize + (tile.first[a] * axes[a].step) as isize;
        let steps = self.steps;
        let places: [usize; 3] = std::array::from_fn(|a| places(&axes[a], steps[a], tile.size[a]));
        for (wi, &w) in residues(width, steps[2]).iter().enumerate() {
            let left = position(2, w);
            let (begin, end) = width.valid(left, steps[2], places[2]);
            let skip = left + (begin * steps[2]) as isize;
            for channel in 0..channels {
                for image in 0..tile.images {
                    let from = (image * image_stride + channel * plane) as isize;
                    // SAFETY: inside this channel and image's part of the scratch memory.
                    let into = unsafe { scratch.add(channel * st.channel + image * st.image + wi * st.residue[2]) };
                    for (di, &d) in residues(depth, steps[0]).iter().enumerate() {
                        for i in 0..places[0] {
                            let z = position(0, d) + (i * steps[0]) as isize;
                            for (hi, &h) in residues(height, steps[1]).iter().enumerate() {
                                // SAFETY: as above; residues and places are inside the image's part.
                                let into =
                                    unsafe { into.add(di * st.residue[0] + hi * st.residue[1] + i * st.axis[0]) };
                                let outside = z < 0 || z >= depth.source as isize || end == begin;
                                let top = position(1, h);
                                let (first, last) = match outside {
                                    true => (0, 0),
                                    false => height.valid(top, steps[1], places[1]),
                                };
                                // SAFETY: `places[2]` numbers from every row are its own; the source runs
                                // `begin..end` of the rows `first..last` were clipped to the source.
                                unsafe {
                                    for j in (0..first).chain(last..places[1]) {
                                        S::clear(into.add(j * st.axis[1]), places[2]);
                                    }
                                    if first == last {
                                        continue;
                                    }
                                    let y = top + (first * steps[1]) as isize;
                                    let offset = from + (z * height.source as isize + y) * width.source as isize + skip;
                                    let run = source.offset(offset * access.size as isize);
                                    let row = into.add(first * st.axis[1]);
                                    let stride = steps[1] * width.source;
                                    if access.same && steps[2] <= 2 {
                                        let from = run.cast::<S::Element>().wrapping_sub(begin * steps[2]);
                                        let (to, n, rows) = ((row, st.axis[1]), places[2], last - first);
                                        match steps[2] {
                                            1 => S::copy_between::<1>((from, stride), (begin, end), to, n, rows),
                                            _ => S::copy_between::<2>((from, stride), (begin, end), to, n, rows),
                                        }
                                        continue;
                                    }
                                    for j in 0..last - first {
                                        let row = row.add(j * st.axis[1]);
                                        let run = run.add(j * stride * access.size);
                                        S::clear(row, begin);
                                        match steps[2] {
                                            2 => load_every_other::<S>(access, run, end - begin, row.add(begin)),
                                            step => load_run::<S>(access, run, step, end - begin, row.add(begin)),
                                        }
                                        S::clear(row.add(end), places[2] - end);
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        scratch
    }

    /// Asks for what `fill` with the same arguments will read, to be in the cache by then.
    #[inline(always)]
    pub(crate) fn prefetch<E>(
        &self,
        axes: &[Axis; 3],
        tile: &TileRange,
        access: &Access<E>,
        source: *const u8,
        image_stride: usize,
        channels: usize,
    ) {
        let [depth, height, width] = axes;
        // The source positions under a tile: rows are contiguous, so whole ones are asked for.
        let range = |a: usize| {
            let first = axes[a].low + (tile.first[a] * axes[a].step) as isize;
            let end = first + (tile.size[a].saturating_sub(1) * axes[a].step + axes[a].span + 1) as isize;
            let size = axes[a].source as isize;
            (first.clamp(0, size) as usize, end.clamp(0, size) as usize)
        };
        let ((z0, z1), (y0, y1)) = (range(0), range(1));
        let row = width.source * access.size;
        for image in 0..tile.images {
            for channel in 0..channels {
                let plane =
                    (image * image_stride + channel * depth.source * height.source * width.source) * access.size;
                for z in z0..z1 {
                    prefetch_run(source.wrapping_add(plane + (z * height.source + y0) * row), (y1 - y0.min(y1)) * row);
                }
            }
        }
    }

    /// The distance of each tap from a position of channel 0.
    pub(crate) fn tap(&self, taps: &[super::geometry::Tap; 3]) -> usize {
        let st = &self.staged;
        (0..3)
            .map(|a| match self.steps[a] {
                1 => taps[a].shift * st.axis[a],
                _ => taps[a].residue * st.residue[a] + taps[a].place * st.axis[a],
            })
            .sum()
    }
}

/// The places that `size` positions of an axis read of a plane that keeps every `step`-th source position.
fn places(axis: &Axis, step: usize, size: usize) -> usize {
    if step == 1 { size.saturating_sub(1) * axis.step + axis.span + 1 } else { size + axis.reach }
}

/// From a source to where the distances of a tile start, in place: outside it, if the first position is padded.
fn from(axes: &[Axis; 3], tile: &TileRange, distance: &[usize; 3]) -> isize {
    (0..3).map(|a| (axes[a].low + (tile.first[a] * axes[a].step) as isize) * distance[a] as isize).sum()
}

/// The residues of which such planes consist.
fn residues(axis: &Axis, step: usize) -> &[usize] {
    if step == 1 { &[0] } else { &axis.residues }
}

/// A quarter of the distance at which lines share a set of the first-level cache.
const SETS_BYTES: usize = 1024;

/// The staging of a gather's source, for either layout.
#[derive(Clone, Copy)]
pub(crate) enum Stage {
    /// Contiguous planes.
    Planes(PlaneStage),
    /// Channels last.
    Pixels(PixelStage),
}

impl Stage {
    /// For tiles of at most `images` images and `size` positions, of which `channels` of `all` channels are read.
    pub(crate) fn new(
        axes: &[Axis; 3],
        channels_last: bool,
        images: usize,
        size: [usize; 3],
        same: bool,
        channels: usize,
        all: usize,
    ) -> Stage {
        if channels_last {
            return Stage::Pixels(PixelStage::new(axes, images, size, same, channels, all));
        }
        let image_stride = all * axes.iter().map(|a| a.source).product::<usize>();
        Stage::Planes(PlaneStage::new(axes, images, size, same, channels, image_stride, false))
    }

    /// Planes where they are, padded or not, for callers that read no padding: if their elements are the numbers, their
    /// distances fit, and their channels do not share a few sets of the first-level cache.
    pub(crate) fn planes_in_place<E>(axes: &[Axis; 3], same: bool, channels: usize, all: usize) -> Option<Stage> {
        let row = axes[2].source;
        let plane = axes[0].source * axes[1].source * row;
        let shared = (plane * size_of::<E>()).is_multiple_of(SETS_BYTES);
        let axis = [axes[1].source * row, row, 1];
        // A tap may lie as far outside the source as the padding says.
        let farthest = (0..3).fold(channels * plane, |n, a| n.saturating_add(axes[a].span.saturating_mul(axis[a])));
        let fits = farthest.max(all * plane) < u32::MAX as usize;
        let staged = Staged { channel: plane, image: all * plane, axis, residue: [0; 3] };
        (same && fits && !shared && FastPath::ConvInPlace.is_on()).then_some(Stage::Planes(PlaneStage {
            in_place: true,
            steps: [1; 3],
            staged,
        }))
    }

    /// Pixels of which all channels are read, where they are, padded or not, for callers that read no padding: if their
    /// elements are the numbers and their distances fit.
    pub(crate) fn pixels_in_place(axes: &[Axis; 3], same: bool, images: usize, channels: usize) -> Option<Stage> {
        let row = axes[2].source * channels;
        let axis = [axes[1].source * row, row, channels];
        let image = axes[0].source * axis[0];
        // A tap may lie as far outside the source as the padding says.
        let farthest = (0..3).fold(images * image, |n, a| n.saturating_add(axes[a].span.saturating_mul(axis[a])));
        let staged = Staged { channel: 1, image, axis, residue: [0; 3] };
        (same && farthest < u32::MAX as usize && FastPath::ConvInPlace.is_on()).then_some(Stage::Pixels(PixelStage {
            in_place: true,
            channels,
            staged,
        }))
    }

    /// The distances.
    pub(crate) fn staged(&self) -> &Staged {
        match self {
            Stage::Planes(s) => &s.staged,
            Stage::Pixels(s) => &s.staged,
        }
    }

    /// The distance between neighbouring positions along each axis.
    pub(crate) fn neighbours(&self, axes: &[Axis; 3]) -> [usize; 3] {
        match self {
            Stage::Planes(s) => s.neighbours(axes),
            Stage::Pixels(s) => std::array::from_fn(|a| axes[a].step * s.staged.axis[a]),
        }
    }

    /// The distance of each tap from a position.
    pub(crate) fn tap(&self, taps: &[super::geometry::Tap; 3]) -> usize {
        match self {
            Stage::Planes(s) => s.tap(taps),
            Stage::Pixels(s) => s.tap(taps),
        }
    }

    /// Numbers that staging a tile takes.
    pub(crate) fn len(&self, images: usize, channels: usize) -> usize {
        match self {
            Stage::Planes(s) => channels * s.staged.channel * usize::from(!s.in_place),
            Stage::Pixels(s) => images * s.staged.image * usize::from(!s.in_place),
        }
    }

    /// Stages `channels` of `all` channels of a tile, from channel `first` on. Returns where distances start from.
    ///
    /// # Safety
    /// `source` is the whole tensor; `scratch` holds `self.len` numbers.
    #[inline(always)]
    pub(crate) unsafe fn fill<S: Simd>(
        &self,
        axes: &[Axis; 3],
        tile: &TileRange,
        access: &Access<S::Element>,
        source: *const u8,
        (first, channels, all): (usize, usize, usize),
        scratch: *mut S::Element,
    ) -> *const S::Element {
        let plane = axes.iter().map(|a| a.source).product::<usize>();
        // SAFETY: the caller's channels and images exist.
        unsafe {
            match *self {
                Stage::Planes(s) => {
                    let source = source.add((tile.image * all + first) * plane * access.size);
                    s.fill::<S>(axes, tile, access, source, all * plane, channels, scratch)
                }
                Stage::Pixels(mut s) => {
                    s.channels = channels;
                    let source = source.add((tile.image * plane * all + first) * access.size);
                    s.fill::<S>(axes, tile, access, source, all, scratch)
                }
            }
        }
    }

    /// Asks for what `fill` with the same arguments will read, where it is scattered, to be in the cache by then.
    #[inline(always)]
    pub(crate) fn prefetch<E>(
        &self,
        axes: &[Axis; 3],
        tile: &TileRange,
        access: &Access<E>,
        source: *const u8,
        (first, channels, all): (usize, usize, usize),
    ) {
        if let Stage::Planes(s) = self {
            let plane = axes.iter().map(|a| a.source).product::<usize>();
            let source = source.wrapping_add((tile.image * all + first) * plane * access.size);
            s.prefetch(axes, tile, access, source, all * plane, channels);
        }
    }
}

/// Reads a run, in line when no conversion is needed.
///
/// # Safety
/// As for `Access::load`.
#[inline(always)]
pub(crate) unsafe fn load_run<S: Simd>(
    access: &Access<S::Element>,
    source: *const u8,
    stride: usize,
    len: usize,
    target: *mut S::Element,
) {
    // SAFETY: the caller's.
    unsafe {
        if access.same && stride == 1 {
            S::copy(source.cast(), target, len);
        } else {
            (access.load)(source, stride, len, target);
        }
    }
}

/// Reads a run of every other element, of another type: neighbours are converted together.
///
/// # Safety
/// As for `Access::load`.
#[inline(always)]
unsafe fn load_every_other<S: Simd>(
    access: &Access<S::Element>,
    source: *const u8,
    len: usize,
    target: *mut S::Element,
) {
    /// Elements that are kept at a time.
    const KEPT: usize = 128;
    let mut neighbours = aligned([S::Element::default(); 2 * KEPT]);
    let buffer = neighbours.as_mut_ptr();
    for first in (0..len).step_by(KEPT) {
        let count = KEPT.min(len - first);
        // SAFETY: the caller's run, whose last element is kept.
        unsafe {
            (access.load)(source.add(2 * first * access.size), 1, 2 * count - 1, buffer);
            S::copy_between::<2>((buffer, 0), (0, count), (target.add(first), 0), count, 1);
        }
    }
}

/// Writes a run, in line when no conversion is needed.
///
/// # Safety
/// As for `Access::store`.
#[inline(always)]
pub(crate) unsafe fn store_run<S: Simd>(
    access: &Access<S::Element>,
    source: *const S::Element,
    target: *mut u8,
    stride: usize,
    len: usize,
) {
    // SAFETY: the caller's.
    unsafe {
        if S::ROUNDS && stride == 1 {
            S::round(source, target, len);
        } else if access.same && stride == 1 {
            S::copy(source, target.cast(), len);
        } else {
            (access.store)(source, target, stride, len);
        }
    }
}

/// The staging of a gather's source for channels last: zero-padded tiles of pixels.
#[derive(Clone, Copy)]
pub(crate) struct PixelStage {
    /// Whether the source is used where it is.
    pub in_place: bool,
    /// Channels kept of each pixel.
    pub channels: usize,
    /// The distances; a position's neighbour is `step` pixels further.
    pub staged: Staged,
}

impl PixelStage {
    /// For tiles of at most `images` images and `size` positions, of which `channels` of `all` channels are read.
    pub(crate) fn new(
        axes: &[Axis; 3],
        images: usize,
        size: [usize; 3],
        same: bool,
        channels: usize,
        all: usize,
    ) -> PixelStage {
        let source: usize = axes.iter().map(|a| a.source).product();
        let inside = axes.iter().all(Axis::inside) && FastPath::ConvInPlace.is_on();
        let in_place = same && inside && images * source * all < u32::MAX as usize;
        let (extent, pixel): ([usize; 3], usize) = if in_place {
            (std::array::from_fn(|a| axes[a].source), all)
        } else {
            (std::array::from_fn(|a| (size[a] - 1) * axes[a].step + axes[a].span + 1), channels)
        };
        let row = extent[2] * pixel;
        let plane = extent[1] * row;
        let staged = Staged { channel: 1, image: extent[0] * plane, axis: [plane, row, pixel], residue: [0; 3] };
        PixelStage { in_place, channels, staged }
    }

    /// Stages a tile; `source` is its first image's first pixel, at the first channel that is read. Returns where tap
    /// distances start from.
    ///
    /// # Safety
    /// `scratch` holds `tile.images * self.staged.image` numbers; `source` is valid for the tile's images.
    #[inline(always)]
    pub(crate) unsafe fn fill<S: Simd>(
        &self,
        axes: &[Axis; 3],
        tile: &TileRange,
        access: &Access<S::Element>,
        source: *const u8,
        all: usize,
        scratch: *mut S::Element,
    ) -> *const S::Element {
        let [depth, height, width] = axes;
        let st = &self.staged;
        if self.in_place {
            return source.cast::<S::Element>().wrapping_offset(from(axes, tile, &st.axis));
        }
        let first: [isize; 3] = std::array::from_fn(|a| axes[a].low + (tile.first[a] * axes[a].step) as isize);
        let extent: [usize; 3] = std::array::from_fn(|a| (tile.size[a] - 1) * axes[a].step + axes[a].span + 1);
        let (begin, end) = width.valid(first[2], 1, extent[2]);
        let (channels, kept) = (st.axis[2], self.channels);
        for image in 0..tile.images {
            for i in 0..extent[0] {
                let z = first[0] + i as isize;
                for j in 0..extent[1] {
                    let y = first[1] + j as isize;
                    // SAFETY: the row is inside the image's part of the scratch memory; the source pixels
                    // `begin..end` were clipped to the source's row.
                    unsafe {
                        let row = scratch.add(image * st.image + i * st.axis[0] + j * st.axis[1]);
                        if z < 0 || z >= depth.source as isize || y < 0 || y >= height.source as isize || begin == end {
                            S::clear(row, extent[2] * channels);
                            continue;
                        }
                        if begin > 0 {
                            S::clear(row, begin * channels);
                        }
                        let pixel = ((image * depth.source + z as usize) * height.source + y as usize) * width.source
                            + (first[2] + begin as isize) as usize;
                        let run = source.add(pixel * all * access.size);
                        let target = row.add(begin * channels);
                        if channels == all && kept == all {
                            load_run::<S>(access, run, 1, (end - begin) * channels, target);
                        } else if access.same && kept.is_multiple_of(S::LANES) {
                            for x in 0..end - begin {
                                let run = run.cast::<S::Element>().add(x * all);
                                for c in (0..kept).step_by(S::LANES) {
                                    S::store(target.add(x * channels + c), S::load(run.add(c)));
                                }
                            }
                        } else {
                            for x in 0..end - begin {
                                let run = run.add(x * all * access.size);
                                load_run::<S>(access, run, 1, kept, target.add(x * channels));
                            }
                        }
                        if end < extent[2] {
                            S::clear(row.add(end * channels), (extent[2] - end) * channels);
                        }
                    }
                }
            }
        }
        scratch
    }

    /// The distance of each tap from a position.
    pub(crate) fn tap(&self, taps: &[super::geometry::Tap; 3]) -> usize {
        (0..3).map(|a| taps[a].shift * self.staged.axis[a]).sum()
    }
}
