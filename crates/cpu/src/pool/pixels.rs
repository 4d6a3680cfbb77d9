//! Pooling with channels last, a pixel of channels at a time.

use super::parts::{Extent, Gathered, Index, LANES};
use super::window::Window;
use super::{Operation, Plan, lowest, replaces};
use crate::math::{Isa, Number, select};
use std::ops::Range;

/// Channels handled together: their accumulators stay in the first-level cache.
const CHANNELS: usize = 256;

/// Units of work: forward, rows of outputs; backward, blocks of channels of images.
pub(super) fn units(plan: &Plan<'_>) -> usize {
    let s = plan.shape;
    match plan.operation {
        Operation::Max | Operation::Average(_) => s.batch * s.output[0] * s.output[1],
        _ => s.batch * s.channels.div_ceil(CHANNELS),
    }
}

/// Elements of a unit.
pub(super) fn unit_len(plan: &Plan<'_>) -> usize {
    let s = plan.shape;
    match plan.operation {
        Operation::Max | Operation::Average(_) => {
            let rows = (s.output[0] * s.output[1]).max(1);
            (s.input.iter().product::<usize>() / rows).max(s.output[2]) * s.channels
        }
        _ => s.input.iter().product::<usize>() * s.channels.min(CHANNELS),
    }
}

/// Pools a range of units.
///
/// # Safety
/// The plan's arrays are valid.
#[inline(always)]
pub(super) unsafe fn pool<L: Isa, C: Number + PartialOrd>(plan: &Plan<'_>, units: Range<usize>) {
    // SAFETY: the caller's.
    unsafe {
        if plan.indices.is_null() {
            forward::<L, C, i32, false>(plan, units);
        } else if const { size_of::<C>() <= 4 } {
            forward::<L, C, i32, true>(plan, units);
        } else {
            forward::<L, C, i64, true>(plan, units);
        }
    }
}

/// Elements of the rows that a line's windows read, up to which they are converted before: they stay in the second-level cache.
const STAGED: usize = if cfg!(test) { 200 } else { 1 << 16 };

/// Maxima (with indices if `INDEX`) and averages.
#[inline(always)]
unsafe fn forward<L: Isa, C: Number + PartialOrd, I: Index, const INDEX: bool>(plan: &Plan<'_>, rows: Range<usize>) {
    let shape = plan.shape;
    let [depth, height, width] = shape.output;
    let (channels, input) = (shape.channels, shape.input);
    let (same, row) = (plan.is_of::<C>(), input[2] * channels);
    let (mut staged, mut results) = (Vec::new(), vec![C::default(); if same { 0 } else { width * channels }]);
    for line in rows {
        let (image, d, h) = (line / (depth * height), line / height % depth, line % height);
        let (wd, wh) = (&plan.windows.axes[0][d], &plan.windows.axes[1][h]);
        let step = [wd.step * input[1] * input[2], wh.step * input[2]];
        let first = (wd.start * input[1] + wh.start) * input[2];
        let (image, to) = (image * input.iter().product::<usize>(), line * width);
        let mut read = Line {
            source: plan.source((image + first) * channels).cast::<C>(),
            result: plan.result(to * channels).cast::<C>(),
            count: [wd.count, wh.count],
            apart: step,
            first,
            step,
            divisor: wd.divisor * wh.divisor,
            to,
        };
        let staged_len = wd.count * wh.count * row;
        // SAFETY: windows are inside the image; this row of output pixels is this unit's.
        unsafe {
            if !same && staged_len > STAGED {
                for w in 0..width {
                    converted::<C, I, INDEX>(plan, &read.window(&plan.windows.axes[2][w]), image, to + w);
                }
                continue;
            }
            if !same {
                staged.resize(staged_len, C::default());
                for (i, to) in staged.chunks_exact_mut(row.max(1)).enumerate() {
                    let from = image + first + i / wh.count * step[0] + i % wh.count * step[1];
                    plan.widen(plan.source(from * channels), to.as_mut_ptr(), row);
                }
                (read.source, read.result) = (staged.as_ptr(), results.as_mut_ptr());
                read.apart = [wh.count * input[2], input[2]];
            }
            read.pool::<L, I, INDEX>(plan);
            if !same {
                plan.narrow(results.as_ptr(), plan.result(to * channels), results.len());
            }
        }
    }
}

/// A row of output pixels, in the type that it is computed in.
struct Line<C> {
    /// The first input row that its windows read.
    source: *const C,
    /// The first of its pixels.
    result: *mut C,
    /// How many planes and rows its windows have.
    count: [usize; 2],
    /// The distances between these there, in pixels.
    apart: [usize; 2],
    /// The first row's place in its image, and the distances there.
    first: usize,
    step: [usize; 2],
    /// What an average divides by, but for the width's part.
    divisor: usize,
    /// The number of its first pixel.
    to: usize,
}

impl<C: Number + PartialOrd> Line<C> {
    /// # Safety
    /// The windows are inside what is read, and the line is a row of the output.
    #[inline(always)]
    unsafe fn pool<L: Isa, I: Index, const INDEX: bool>(&self, plan: &Plan<'_>) {
        // SAFETY: the caller's.
        unsafe {
            if const { L::COMPACT } || plan.shape.channels < LANES {
                return few_channels::<C, I, INDEX>(plan, self);
            }
            for (w, ww) in plan.windows.axes[2].iter().enumerate() {
                pixel::<C, I, INDEX>(plan, self, &self.window(ww), w);
            }
        }
    }

    /// The window of a pixel.
    #[inline(always)]
    fn window(&self, width: &Window) -> Place {
        Place {
            column: width.start,
            first: self.first + width.start,
            count: [self.count[0], self.count[1], width.count],
            step: [self.step[0], self.step[1], width.step],
            divisor: self.divisor * width.divisor,
        }
    }
}

/// Where the pixels of a window are.
struct Place {
    /// The column of the first, and its place in its image.
    column: usize,
    first: usize,
    /// How many there are, by axis.
    count: [usize; 3],
    /// How far apart they are.
    step: [usize; 3],
    /// What an average divides by.
    divisor: usize,
}

impl Place {
    /// A pixel, of its image's.
    #[inline(always)]
    fn pixel(&self, i: usize, j: usize, k: usize) -> usize {
        self.first + i * self.step[0] + j * self.step[1] + k * self.step[2]
    }
}

/// An output pixel in the type it is computed in, as many channels at a time as make a few vectors. The last ones overlap those
/// before them: they give the same again. There are [`LANES`] at least.
///
/// # Safety
/// The window is inside what the line reads, and it has a pixel `w`.
#[inline(always)]
unsafe fn pixel<C: Number + PartialOrd, I: Index, const INDEX: bool>(
    plan: &Plan<'_>,
    line: &Line<C>,
    window: &Place,
    w: usize,
) {
    let channels = plan.shape.channels;
    let most = if const { size_of::<C>() > 4 } { 16 } else { 32 };
    let mut done = 0;
    while done < channels {
        let n = match channels {
            n if n >= most && channels - done > LANES => most,
            _ => LANES,
        };
        let c = done.min(channels - n);
        // SAFETY: the caller's.
        unsafe {
            match n {
                LANES => block::<C, I, INDEX, LANES>(plan, line, window, w, c),
                _ if const { size_of::<C>() > 4 } => block::<C, I, INDEX, 16>(plan, line, window, w, c),
                _ => block::<C, I, INDEX, 32>(plan, line, window, w, c),
            }
        }
        done = c + n;
    }
}

/// A row of output pixels of fewer channels than make a vector: channels of several pixels together.
///
/// # Safety
/// The windows are inside what the line reads, and the line is a row of the output.
#[inline(always)]
unsafe fn few_channels<C: Number + PartialOrd, I: Index, const INDEX: bool>(plan: &Plan<'_>, line: &Line<C>) {
    let (channels, widths) = (plan.shape.channels, &plan.windows.axes[2]);
    let max = INDEX || plan.operation == Operation::Max;
    let zero = if max { lowest(plan.dtype) } else { C::default() };
    let (mut w, mut c) = (0, 0);
    while w < widths.len() {
        let first = w * channels + c;
        let (window, count, divisor) = (line.window(&widths[w]), widths[w].count, widths[w].divisor);
        let mut some = Gathered::of(Extent { count: window.count, step: window.step });
        while w < widths.len() && some.len < LANES && (widths[w].count, widths[w].divisor) == (count, divisor) {
            some.push(widths[w].start * channels + c, line.first + widths[w].start);
            c += 1;
            if c == channels {
                (c, w) = (0, w + 1);
            }
        }
        let apart = [line.apart[0], line.apart[1], window.step[2]].map(|pixels| pixels * channels);
        // SAFETY: the caller's.
        unsafe {
            let (mut best, at) = some.compute::<C, I, INDEX>(line.source, apart, max, zero);
            if !max && let Some(by) = average_by(plan, window.divisor) {
                for sum in &mut best {
                    *sum = sum.div(by);
                }
            }
            for i in 0..some.len {
                *line.result.add(first + i) = best[i];
                if INDEX {
                    *plan.indices.add(line.to * channels + first + i) = at[i].to_i64();
                }
            }
        }
    }
}

/// `N` channels from `c` on of an output pixel.
#[inline(always)]
unsafe fn block<C: Number + PartialOrd, I: Index, const INDEX: bool, const N: usize>(
    plan: &Plan<'_>,
    line: &Line<C>,
    window: &Place,
    w: usize,
    c: usize,
) {
    let channels = plan.shape.channels;
    let max = INDEX || plan.operation == Operation::Max;
    let mut best = [if max { lowest(plan.dtype) } else { C::default() }; N];
    let mut at = [I::of(window.first); N];
    for i in 0..window.count[0] {
        for j in 0..window.count[1] {
            for k in 0..window.count[2] {
                let pixel = window.column + i * line.apart[0] + j * line.apart[1] + k * window.step[2];
                let position = window.pixel(i, j, k);
                // SAFETY: the caller's.
                let x = unsafe { line.source.add(pixel * channels + c).cast::<[C; N]>().read_unaligned() };
                if max {
                    for c in 0..N {
                        let wins = replaces(x[c], best[c]);
                        best[c] = select(wins, x[c], best[c]);
                        if INDEX {
                            at[c] = select(wins, I::of(position), at[c]);
                        }
                    }
                } else {
                    for c in 0..N {
                        best[c] = best[c].add(x[c]);
                    }
                }
            }
        }
    }
    if !max && let Some(by) = average_by(plan, window.divisor) {
        for sum in &mut best {
            *sum = sum.div(by);
        }
    }
    // SAFETY: the caller's.
    unsafe {
        line.result.add(w * channels + c).cast::<[C; N]>().write_unaligned(best);
        if INDEX {
            for (i, at) in at.iter().enumerate() {
                *plan.indices.add((line.to + w) * channels + c + i) = at.to_i64();
            }
        }
    }
}

/// What a window's sum is divided by. One without elements is zero, whatever its divisor.
#[inline(always)]
fn average_by<C: Number>(plan: &Plan<'_>, own: usize) -> Option<C> {
    let Operation::Average(divisor) = plan.operation else { return None };
    let by = if divisor != 0 { divisor } else { own as i64 };
    (by != 0).then(|| C::from_i64(by))
}

/// An output pixel of another dtype whose window is large: pixels are converted one by one.
///
/// # Safety
/// The image and the window are inside the input, and `to` is a pixel of the output.
#[inline(always)]
unsafe fn converted<C: Number + PartialOrd, I: Index, const INDEX: bool>(
    plan: &Plan<'_>,
    window: &Place,
    image: usize,
    to: usize,
) {
    let channels = plan.shape.channels;
    let max = INDEX || plan.operation == Operation::Max;
    let zero = if max { lowest(plan.dtype) } else { C::default() };
    let mut wide = [C::default(); CHANNELS];
    for c in (0..channels).step_by(CHANNELS) {
        let n = CHANNELS.min(channels - c);
        let mut best = [zero; CHANNELS];
        let mut at = [I::of(window.first); CHANNELS];
        for i in 0..window.count[0] {
            for j in 0..window.count[1] {
                for k in 0..window.count[2] {
                    let position = window.pixel(i, j, k);
                    // SAFETY: the caller's; the array has room for the channels.
                    unsafe { plan.widen(plan.source((image + position) * channels + c), wide.as_mut_ptr(), n) };
                    for c in 0..n {
                        let x = wide[c];
                        if !max {
                            best[c] = best[c].add(x);
                            continue;
                        }
                        let wins = replaces(x, best[c]);
                        best[c] = select(wins, x, best[c]);
                        if INDEX {
                            at[c] = select(wins, I::of(position), at[c]);
                        }
                    }
                }
            }
        }
        if !max && let Some(by) = average_by::<C>(plan, window.divisor) {
            best[..n].iter_mut().for_each(|s| *s = s.div(by));
        }
        // SAFETY: the caller's.
        unsafe {
            let place = to * channels + c;
            plan.narrow(best.as_ptr(), plan.result(place), n);
            if INDEX {
                for (i, at) in at[..n].iter().enumerate() {
                    *plan.indices.add(place + i) = at.to_i64();
                }
            }
        }
    }
}

/// Gradients: each image's block of channels is cleared and then added to.
///
/// # Safety
/// The plan's arrays are valid.
#[inline(always)]
pub(super) unsafe fn backward<C: Number>(plan: &Plan<'_>, units: Range<usize>) {
    let shape = plan.shape;
    let channels = shape.channels;
    let blocks = channels.div_ceil(CHANNELS);
    let [depth, height, width] = shape.output;
    let input: usize = shape.input.iter().product();
    let output = depth * height * width;
    let same = plan.is_of::<C>();
    let mut image_memory = vec![C::default(); if same { 0 } else { input * channels.min(CHANNELS) }];
    let mut pixel = [C::default(); CHANNELS];
    for unit in units {
        let (image, c) = (unit / blocks, unit % blocks * CHANNELS);
        let n = CHANNELS.min(channels - c);
        // SAFETY: the image and channels are inside the arrays; windows and indices are inside the image.
        unsafe {
            let result = plan.result(image * input * channels + c);
            let (y, stride) = if same { (result.cast::<C>(), channels) } else { (image_memory.as_mut_ptr(), n) };
            for position in 0..input {
                std::slice::from_raw_parts_mut(y.add(position * stride), n).fill(C::default());
            }
            for p in 0..output {
                let place = (image * output + p) * channels + c;
                plan.widen(plan.source(place), pixel.as_mut_ptr(), n);
                let Operation::AverageBackward(divisor) = plan.operation else {
                    for (i, g) in pixel[..n].iter().enumerate() {
                        let to = y.add(*plan.indices.add(place + i) as usize * stride + i);
                        *to = (*to).add(*g);
                    }
                    continue;
                };
                let axes = &plan.windows.axes;
                let (wd, wh, ww) = (&axes[0][p / (height * width)], &axes[1][p / width % height], &axes[2][p % width]);
                let own = wd.divisor * wh.divisor * ww.divisor;
                let by = if divisor != 0 { divisor } else { own as i64 };
                if by != 0 {
                    let by = C::from_i64(by);
                    pixel[..n].iter_mut().for_each(|g| *g = g.div(by));
                }
                let base = (wd.start * shape.input[1] + wh.start) * shape.input[2] + ww.start;
                for i in 0..wd.count {
                    for j in 0..wh.count {
                        for k in 0..ww.count {
                            let at = base + (i * wd.step * shape.input[1] + j * wh.step) * shape.input[2] + k * ww.step;
                            let to = std::slice::from_raw_parts_mut(y.add(at * stride), n);
                            to.iter_mut().zip(&pixel[..n]).for_each(|(t, g)| *t = t.add(*g));
                        }
                    }
                }
            }
            if !same {
                for position in 0..input {
                    plan.narrow(y.add(position * n), result.add(position * channels * plan.dtype.size()), n);
                }
            }
        }
    }
}
