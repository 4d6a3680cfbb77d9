//! Pooling of contiguous planes, a row of outputs at a time.

use super::window::Window;
use super::{Operation, Plan, lowest, only_max, replaces};
use crate::math::{Number, select};
use flambeau_base::Element;
use std::ops::Range;

/// A number that an index is compared and selected as: as wide as the values, where possible, so that one vector
/// comparison selects both.
pub(super) trait Index: Copy + Default + 'static {
    fn of(i: usize) -> Self;
    fn to_i64(self) -> i64;
    fn plus(self, i: usize) -> Self;
}
impl Index for i32 {
    #[inline(always)]
    fn of(i: usize) -> i32 {
        i as i32
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self as i64
    }
    #[inline(always)]
    fn plus(self, i: usize) -> i32 {
        self + i as i32
    }
}
impl Index for i64 {
    #[inline(always)]
    fn of(i: usize) -> i64 {
        i as i64
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self
    }
    #[inline(always)]
    fn plus(self, i: usize) -> i64 {
        self + i as i64
    }
}

/// Pools the planes of a range.
///
/// # Safety
/// The plan's arrays are valid.
#[inline(always)]
pub(super) unsafe fn pool<C: Number + PartialOrd>(plan: &Plan<'_>, planes: Range<usize>) {
    let input: usize = plan.shape.input.iter().product();
    // SAFETY: the caller's.
    unsafe {
        if plan.indices.is_null() {
            forward::<C, i32, false>(plan, planes);
        } else if const { size_of::<C>() <= 4 } && input <= i32::MAX as usize {
            forward::<C, i32, true>(plan, planes);
        } else {
            forward::<C, i64, true>(plan, planes);
        }
    }
}

/// Maxima (with indices if `INDEX`) and averages.
#[inline(always)]
unsafe fn forward<C: Number + PartialOrd, I: Index, const INDEX: bool>(plan: &Plan<'_>, planes: Range<usize>) {
    let shape = plan.shape;
    let [depth, height, width] = shape.output;
    let input: usize = shape.input.iter().product();
    let output = depth * height * width;
    let same = plan.is_of::<C>();
    let max = only_max::<C>(INDEX) || plan.operation == Operation::Max;
    let zero = if max { lowest(plan.dtype) } else { C::default() };
    let mut plane_memory = vec![C::default(); if same { 0 } else { input }];
    let mut row_memory = vec![C::default(); width];
    let mut index_memory = vec![I::default(); if INDEX { width } else { 0 }];
    let windows = &plan.windows;
    for plane in planes {
        // SAFETY: the plane is inside the arrays; windows are inside the plane.
        unsafe {
            let source = plan.source(plane * input);
            let mut x = source.cast::<C>();
            if !same {
                plan.widen(source, plane_memory.as_mut_ptr(), input);
                x = plane_memory.as_ptr();
            }
            for d in 0..depth {
                for h in 0..height {
                    let (wd, wh) = (&windows.axes[0][d], &windows.axes[1][h]);
                    let place = plane * output + (d * height + h) * width;
                    let row = row_memory.as_mut_ptr();
                    let at = index_memory.as_mut_ptr();
                    let base = (wd.start * shape.input[1] + wh.start) * shape.input[2];
                    for (w, window) in windows.axes[2].iter().enumerate() {
                        *row.add(w) = zero;
                        if INDEX {
                            *at.add(w) = I::of(base + window.start);
                        }
                    }
                    for i in 0..wd.count {
                        for j in 0..wh.count {
                            let line =
                                ((wd.start + i * wd.step) * shape.input[1] + wh.start + j * wh.step) * shape.input[2];
                            if windows.taps.is_empty() {
                                uneven::<_, I, INDEX>(x.add(line), line, &windows.axes[2], max, row, at);
                                continue;
                            }
                            for tap in &windows.taps {
                                let n = tap.end - tap.begin;
                                let first = line + tap.first;
                                let (from, row) = (x.add(first), row.add(tap.begin));
                                let at = if INDEX { at.add(tap.begin) } else { at };
                                // The usual strides are constants: their loads vectorise.
                                match (windows.stride, max) {
                                    (1, true) => maxima::<_, I, INDEX>(from, 1, first, n, row, at),
                                    (2, true) => maxima::<_, I, INDEX>(from, 2, first, n, row, at),
                                    (s, true) => maxima::<_, I, INDEX>(from, s, first, n, row, at),
                                    (1, false) => sums(from, 1, n, row),
                                    (2, false) => sums(from, 2, n, row),
                                    (s, false) => sums(from, s, n, row),
                                }
                            }
                        }
                    }
                    if !max && let Operation::Average(divisor) = plan.operation {
                        for (w, window) in windows.axes[2].iter().enumerate() {
                            let own = wd.divisor * wh.divisor * window.divisor;
                            let by = if divisor != 0 { divisor } else { own as i64 };
                            // A window without elements is zero, whatever its divisor.
                            if by != 0 {
                                *row.add(w) = (*row.add(w)).div(C::from_i64(by));
                            }
                        }
                    }
                    plan.narrow(row, plan.result(place), width);
                    if INDEX {
                        let indices = plan.indices.add(place);
                        for w in 0..width {
                            *indices.add(w) = (*at.add(w)).to_i64();
                        }
                    }
                }
            }
        }
    }
}

/// Takes every `stride`-th element into a row of maxima.
#[inline(always)]
unsafe fn maxima<C: Element + PartialOrd, I: Index, const INDEX: bool>(
    from: *const C,
    stride: usize,
    first: usize,
    n: usize,
    row: *mut C,
    at: *mut I,
) {
    for i in 0..n {
        // SAFETY: the caller's.
        unsafe {
            let x = *from.add(i * stride);
            let best = *row.add(i);
            let wins = replaces(x, best);
            *row.add(i) = select(wins, x, best);
            if INDEX {
                *at.add(i) = select(wins, I::of(first).plus(i * stride), *at.add(i));
            }
        }
    }
}

/// Adds every `stride`-th element to a row of sums.
#[inline(always)]
unsafe fn sums<C: Number>(from: *const C, stride: usize, n: usize, row: *mut C) {
    for i in 0..n {
        // SAFETY: the caller's.
        unsafe { *row.add(i) = (*row.add(i)).add(*from.add(i * stride)) };
    }
}

/// Takes one line of the input into windows of uneven widths.
#[inline(always)]
unsafe fn uneven<C: Number + PartialOrd, I: Index, const INDEX: bool>(
    line: *const C,
    first: usize,
    windows: &[Window],
    max: bool,
    row: *mut C,
    at: *mut I,
) {
    for (w, window) in windows.iter().enumerate() {
        // SAFETY: the caller's.
        unsafe {
            let from = line.add(window.start);
            if max {
                for k in 0..window.count {
                    let x = *from.add(k);
                    if replaces(x, *row.add(w)) {
                        *row.add(w) = x;
                        if INDEX {
                            *at.add(w) = I::of(first + window.start + k);
                        }
                    }
                }
            } else {
                // Sixteen partial sums: a single one cannot be vectorised.
                let mut parts = [C::ZERO; 16];
                let mut k = 0;
                while k + 16 <= window.count {
                    for (i, part) in parts.iter_mut().enumerate() {
                        *part = part.add(*from.add(k + i));
                    }
                    k += 16;
                }
                let mut sum = *row.add(w);
                if k > 0 {
                    sum = parts.into_iter().fold(sum, |a, b| a.add(b));
                }
                for k in k..window.count {
                    sum = sum.add(*from.add(k));
                }
                *row.add(w) = sum;
            }
        }
    }
}

/// Gradients: each plane is cleared and then added to.
///
/// # Safety
/// The plan's arrays are valid.
#[inline(always)]
pub(super) unsafe fn backward<C: Number>(plan: &Plan<'_>, planes: Range<usize>) {
    if plan.windows.part(plan.shape.input) {
        // SAFETY: the caller's.
        return unsafe { backward_parted::<C>(plan, planes) };
    }
    let shape = plan.shape;
    let input: usize = shape.input.iter().product();
    let output: usize = shape.output.iter().product();
    let same = plan.is_of::<C>();
    let max = plan.operation == Operation::MaxBackward;
    let mut plane_memory = vec![C::default(); if same { 0 } else { input }];
    // Gradients in the type they are computed in: all of a plane, or a row of them and a line that they are spread over.
    let row_len = if max { output } else { shape.output[2] };
    let mut row_memory = vec![C::default(); row_len];
    let mut line_memory = vec![C::default(); if max { 0 } else { shape.input[2] }];
    for plane in planes {
        // SAFETY: the plane is inside the arrays; windows and indices are inside the plane.
        unsafe {
            let source = plan.source(plane * output);
            let result = plan.result(plane * input);
            let y = if same { result.cast::<C>() } else { plane_memory.as_mut_ptr() };
            for i in 0..input {
                *y.add(i) = C::default();
            }
            let row = row_memory.as_mut_ptr();
            if max {
                let from = if same { source.cast::<C>() } else { row.cast_const() };
                if !same {
                    plan.widen(source, row, output);
                }
                let indices = plan.indices.add(plane * output);
                for i in 0..output {
                    let to = y.add(*indices.add(i) as usize);
                    *to = (*to).add(*from.add(i));
                }
            } else {
                spread_plane(plan, source, y, row, line_memory.as_mut_ptr());
            }
            if !same {
                plan.narrow(y, result, input);
            }
        }
    }
}

/// Adds a plane's gradients of averages to those of its inputs, given room for a row of the ones and a line of the others.
///
/// # Safety
/// The arrays are valid for a plane, a row and a line.
#[inline(always)]
unsafe fn spread_plane<C: Number>(plan: &Plan<'_>, source: *const u8, y: *mut C, row: *mut C, line: *mut C) {
    let Operation::AverageBackward(divisor) = plan.operation else { return };
    let (windows, [_, input_height, input_width]) = (&plan.windows, plan.shape.input);
    let [_, height, width] = plan.shape.output;
    for (d, wd) in windows.axes[0].iter().enumerate() {
        for (h, wh) in windows.axes[1].iter().enumerate() {
            // SAFETY: the caller's; windows are inside the plane.
            unsafe {
                plan.widen(source.add((d * height + h) * width * plan.dtype.size()), row, width);
                for (w, window) in windows.axes[2].iter().enumerate() {
                    let own = wd.divisor * wh.divisor * window.divisor;
                    let by = if divisor != 0 { divisor } else { own as i64 };
                    if by != 0 {
                        *row.add(w) = (*row.add(w)).div(C::from_i64(by));
                    }
                }
                let uneven = windows.taps.is_empty();
                if uneven {
                    // All lines of a window get the same.
                    std::slice::from_raw_parts_mut(line, input_width).fill(C::default());
                    for (w, window) in windows.axes[2].iter().enumerate() {
                        let g = *row.add(w);
                        for k in 0..window.count {
                            let to = line.add(window.start + k);
                            *to = (*to).add(g);
                        }
                    }
                }
                for i in 0..wd.count {
                    for j in 0..wh.count {
                        let at = ((wd.start + i * wd.step) * input_height + wh.start + j * wh.step) * input_width;
                        let to = y.add(at);
                        if uneven {
                            spread(line, to, 1, input_width);
                            continue;
                        }
                        for tap in &windows.taps {
                            let (to, from, n) = (to.add(tap.first), row.add(tap.begin), tap.end - tap.begin);
                            match windows.stride {
                                1 => spread(from, to, 1, n),
                                2 => spread(from, to, 2, n),
                                s => spread(from, to, s, n),
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Gradients of averages over windows that part the input: every element is written once, its window's share.
///
/// # Safety
/// The plan's arrays are valid.
#[inline(always)]
unsafe fn backward_parted<C: Number>(plan: &Plan<'_>, planes: Range<usize>) {
    let Operation::AverageBackward(divisor) = plan.operation else { return };
    let [_, input_height, input_width] = plan.shape.input;
    let input: usize = plan.shape.input.iter().product();
    let [depths, heights, widths] = &plan.windows.axes;
    let mut shares = vec![C::default(); widths.len()];
    let mut wide = vec![C::default(); input_width];
    let size = plan.dtype.size();
    let mut line = vec![0u8; input_width * size];
    for plane in planes {
        for (d, wd) in depths.iter().enumerate() {
            for (h, wh) in heights.iter().enumerate() {
                let row = ((plane * depths.len() + d) * heights.len() + h) * widths.len();
                // SAFETY: a row of the output's gradient, and lines of the input's that are this window's alone.
                unsafe {
                    plan.widen(plan.source(row), shares.as_mut_ptr(), widths.len());
                    for (share, window) in shares.iter().zip(widths) {
                        let own = (wd.divisor * wh.divisor * window.divisor) as i64;
                        let share = share.div(C::from_i64(if divisor != 0 { divisor } else { own }));
                        wide[window.start..window.start + window.count].fill(share);
                    }
                    plan.narrow(wide.as_ptr(), line.as_mut_ptr(), input_width);
                    for i in wd.start..wd.start + wd.count {
                        for j in wh.start..wh.start + wh.count {
                            let at = plane * input + (i * input_height + j) * input_width;
                            std::ptr::copy_nonoverlapping(line.as_ptr(), plan.result(at), line.len());
                        }
                    }
                }
            }
        }
    }
}

/// Adds a row to every `stride`-th element.
#[inline(always)]
unsafe fn spread<C: Number>(from: *const C, to: *mut C, stride: usize, n: usize) {
    for i in 0..n {
        // SAFETY: the caller's.
        unsafe {
            let to = to.add(i * stride);
            *to = (*to).add(*from.add(i));
        }
    }
}
