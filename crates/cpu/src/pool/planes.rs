//! Pooling of contiguous planes, a row of outputs at a time.

use super::parts::{Index, Parts};
use super::window::Window;
use super::{Operation, Plan, lowest};
use crate::math::{Isa, Number};
use std::ops::Range;

/// Pools the planes of a range.
///
/// # Safety
/// The plan's arrays are valid.
#[inline(always)]
pub(super) unsafe fn pool<L: Isa, C: Number + PartialOrd>(plan: &Plan<'_>, planes: Range<usize>) {
    // SAFETY: the caller's.
    unsafe {
        if plan.indices.is_null() {
            forward::<L, C, i32, false>(plan, planes);
        } else if const { size_of::<C>() <= 4 } {
            forward::<L, C, i32, true>(plan, planes);
        } else {
            forward::<L, C, i64, true>(plan, planes);
        }
    }
}

/// Maxima (with indices if `INDEX`) and averages.
#[inline(always)]
unsafe fn forward<L: Isa, C: Number + PartialOrd, I: Index, const INDEX: bool>(plan: &Plan<'_>, planes: Range<usize>) {
    let input: usize = plan.shape.input.iter().product();
    let output: usize = plan.shape.output.iter().product();
    let same = plan.is_of::<C>();
    let max = INDEX || plan.operation == Operation::Max;
    let zero = if max { lowest(plan.dtype) } else { C::default() };
    let parts = Parts::new::<L>(&plan.windows, plan.shape.input);
    let divisors: Vec<C> = match plan.operation {
        Operation::Average(divisor) if !max => parts.divisors(divisor),
        _ => Vec::new(),
    };
    let mut source_memory = vec![C::default(); if same { 0 } else { input }];
    let mut result_memory = vec![C::default(); if same { 0 } else { output }];
    let mut index_memory = vec![I::default(); if INDEX { output } else { 0 }];
    for plane in planes {
        // SAFETY: the plane is inside the arrays, and windows are inside the plane.
        unsafe {
            let (source, result) = (plan.source(plane * input), plan.result(plane * output));
            let (mut x, mut y) = (source.cast::<C>(), result.cast::<C>());
            if !same {
                plan.widen(source, source_memory.as_mut_ptr(), input);
                (x, y) = (source_memory.as_ptr(), result_memory.as_mut_ptr());
            }
            let at = index_memory.as_mut_ptr();
            parts.fill::<L, C, I, INDEX>(x, max, zero, y, at);
            for (i, by) in divisors.iter().enumerate() {
                *y.add(i) = (*y.add(i)).div(*by);
            }
            if !same {
                plan.narrow(y, result, output);
            }
            if INDEX {
                for (i, at) in index_memory.iter().enumerate() {
                    *plan.indices.add(plane * output + i) = at.to_i64();
                }
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
    let mut divisors = vec![C::ONE; widths.len()];
    let mut wide = vec![C::default(); input_width];
    let len = input_width * plan.dtype.size();
    let count = widths.first().map_or(0, |w| w.count);
    let count = if widths.iter().all(|w| w.count == count) { count } else { 0 };
    let mut lines = None;
    for plane in planes {
        for (d, wd) in depths.iter().enumerate() {
            for (h, wh) in heights.iter().enumerate() {
                if wd.count * wh.count == 0 {
                    continue;
                }
                if lines != Some(wd.divisor * wh.divisor) {
                    for (by, window) in divisors.iter_mut().zip(widths) {
                        let own = (wd.divisor * wh.divisor * window.divisor) as i64;
                        *by = C::from_i64(if divisor != 0 { divisor } else { own });
                    }
                    lines = Some(wd.divisor * wh.divisor);
                }
                let row = ((plane * depths.len() + d) * heights.len() + h) * widths.len();
                let first = plane * input + (wd.start * input_height + wh.start) * input_width;
                // SAFETY: a row of the output's gradient, and lines of the input's that are this window's alone.
                unsafe {
                    plan.widen(plan.source(row), shares.as_mut_ptr(), widths.len());
                    for (share, by) in shares.iter_mut().zip(&divisors) {
                        *share = share.div(*by);
                    }
                    repeat(&shares, widths, count, &mut wide);
                    plan.narrow(wide.as_ptr(), plan.result(first), input_width);
                    for line in 1..wd.count * wh.count {
                        let (i, j) = (line / wh.count, line % wh.count);
                        let to = plan.result(first + (i * input_height + j) * input_width);
                        std::ptr::copy_nonoverlapping(plan.result(first), to, len);
                    }
                }
            }
        }
    }
}

/// Writes each window's share to all of its elements, of which there are `count` in every one, unless that is 0.
#[inline(always)]
fn repeat<C: Number>(shares: &[C], windows: &[Window], count: usize, line: &mut [C]) {
    match count {
        2 => repeat_times::<C, 2>(shares, line),
        3 => repeat_times::<C, 3>(shares, line),
        4 => repeat_times::<C, 4>(shares, line),
        _ => {
            for (share, window) in shares.iter().zip(windows) {
                for x in &mut line[window.start..window.start + window.count] {
                    *x = *share;
                }
            }
        }
    }
}

/// The same for windows of `N` elements each.
#[inline(always)]
fn repeat_times<C: Number, const N: usize>(shares: &[C], line: &mut [C]) {
    for (share, window) in shares.iter().zip(line.as_chunks_mut::<N>().0) {
        *window = [*share; N];
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
