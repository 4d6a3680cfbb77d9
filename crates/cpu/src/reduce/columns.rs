//! Folding rows of contiguous elements into one accumulator for each column.

use super::Block;
use super::fold::{Fold, any_rare};
use crate::buffer::aligned;
use crate::math::{Isa, select};
use crate::prefetch::{prefetch, prefetch_run, prefetch_run_near};

/// Accumulators that the elements of few columns are dealt to.
pub(super) const LANES: usize = 256;

/// Bytes between what is folded and what is asked for.
const AHEAD: usize = 1 << 15;

/// Columns folded together: few enough for their accumulators to stay in registers (Note [Lanes]).
pub(super) const LOOK: usize = 64;

/// Rows folded together: an accumulator is loaded and stored once for that many elements.
pub(super) const ROWS: usize = 8;

/// Folds `ROWS` rows of `LOOK` columns, but not the first `skip` columns, and asks for what is `ahead` elements further on, and
/// `next` elements, unless that is 0.
///
/// # Safety
/// `x` must be valid for the rows, `row_stride` elements apart.
#[inline(always)]
unsafe fn fold_tile<I: Isa, F: Fold>(
    f: F,
    x: *const F::In,
    strides: (isize, isize, usize),
    skip: usize,
    params: &[F::Param; LOOK],
    states: &mut [F::State; LOOK],
) {
    // About a cache line, where vectors are chosen by hand. Of loops of so few turns compilers make none.
    // SAFETY: the caller's rows.
    unsafe {
        match (const { F::QUICK_ROWS }, const { size_of::<F::In>() }) {
            (true, 4 | 8) => fold_parts::<I, F, 16>(f, x, strides, skip, params, states),
            (true, 2) => fold_parts::<I, F, 32>(f, x, strides, skip, params, states),
            _ => fold_parts::<I, F, LOOK>(f, x, strides, skip, params, states),
        }
    }
}

/// [`fold_tile`], `W` columns after the other: their accumulators stay in registers, and few lines of memory at a time are
/// read and asked for. (To ask for all of a tile at once took a third longer: caches wait for some twenty lines, and who asks
/// for more waits himself.)
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn fold_parts<I: Isa, F: Fold, const W: usize>(
    f: F,
    x: *const F::In,
    (row_stride, ahead, next): (isize, isize, usize),
    skip: usize,
    params: &[F::Param; LOOK],
    states: &mut [F::State; LOOK],
) {
    let parts = states.as_chunks_mut::<W>().0.iter_mut().zip(params.as_chunks::<W>().0);
    for ((states, params), start) in parts.zip((0..).step_by(W)) {
        let (x, skip) = (x.wrapping_add(start), skip.saturating_sub(start));
        for r in 0..if ahead != 0 { ROWS as isize } else { 0 } {
            let row = x.wrapping_offset(r * row_stride);
            prefetch_run(row.wrapping_offset(ahead).cast(), W * size_of::<F::In>());
            if next != 0 {
                prefetch_run_near(row.wrapping_add(next).cast(), W * size_of::<F::In>());
            }
        }
        // SAFETY: columns of the caller's.
        unsafe {
            if !F::QUICK_COLUMNS || !fold_part::<I, F, true, W>(f, x, row_stride, skip, params, states) {
                fold_part::<I, F, false, W>(f, x, row_stride, skip, params, states);
            }
        }
    }
}

/// [`fold_parts`] of one part. Gives up, having changed nothing, if it is to be `QUICK` and there are rare elements.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn fold_part<I: Isa, F: Fold, const QUICK: bool, const W: usize>(
    f: F,
    x: *const F::In,
    row_stride: isize,
    skip: usize,
    params: &[F::Param; W],
    states: &mut [F::State; W],
) -> bool {
    let mut s = *states;
    let mut rare = const { aligned([0u32; W]) };
    for r in (0..ROWS).step_by(4) {
        let row = |i: usize| x.wrapping_offset((r + i) as isize * row_stride);
        // SAFETY: the caller's rows.
        unsafe { fold_four_rows::<I, F, QUICK, W>(f, [row(0), row(1), row(2), row(3)], params, &mut s, &mut rare) };
    }
    keep::<F, QUICK, W>(&s, &rare, skip, states)
}

/// Folds `W` columns of four rows.
///
/// # Safety
/// The columns must be valid.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loops countable, and their bounds constant.
unsafe fn fold_four_rows<I: Isa, F: Fold, const QUICK: bool, const W: usize>(
    f: F,
    [a, b, c, d]: [*const F::In; 4],
    params: &[F::Param; W],
    s: &mut [F::State; W],
    rare: &mut [u32; W],
) {
    // SAFETY: the caller's columns; the machine has `I`.
    if (QUICK || const { !F::QUICK_COLUMNS }) && unsafe { F::quick_rows::<I, W>([a, b, c, d], s) } {
        return;
    }
    // SAFETY: as above.
    let at = |l: usize| unsafe { [*a.add(l), *b.add(l), *c.add(l), *d.add(l)] };
    for l in 0..W {
        s[l] = match QUICK {
            true => f.quick_merge(s[l], f.quick_four::<I>(at(l), params[l])),
            false => f.merge(s[l], f.four::<I>(at(l), params[l])),
        };
    }
    if QUICK {
        for l in 0..W {
            rare[l] = select(any_rare::<F>(at(l)), 1, rare[l]);
        }
    }
}

/// Stores what columns' accumulators became, but for the first `skip`; not if it was the `QUICK` way and that does not hold.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // As above.
fn keep<F: Fold, const QUICK: bool, const W: usize>(
    s: &[F::State; W],
    rare: &[u32; W],
    skip: usize,
    states: &mut [F::State; W],
) -> bool {
    if QUICK {
        let mut any = 0;
        for l in 0..W {
            any |= select(F::stands(s[l]), rare[l], 1);
        }
        if any != 0 {
            return false;
        }
    }
    if skip == 0 {
        *states = *s;
    } else {
        for l in 0..W {
            states[l] = select(l >= skip, s[l], states[l]);
        }
    }
    true
}

/// The most rows that [`fold_few_rows`] takes.
pub(super) const FEW: usize = 32;

/// Bytes of a row from which on the hardware sees what comes next, so that many may be read side by side.
const LONG_STRETCH: usize = 1 << 12;

/// At most [`FEW`] rows, in fours; what stands for those that are missing from the last four does not go on with the columns.
pub(super) struct FewRows<T> {
    first: [*const T; FEW],
    goes_on: [usize; FEW],
    fours: usize,
}

impl<T> FewRows<T> {
    /// Rows from `x` on, `nothing` being the address of `LOOK` elements that add nothing.
    #[inline(always)]
    pub(super) fn new(x: *const T, (rows, row_stride): (usize, isize), nothing: *const T) -> FewRows<T> {
        let (mut first, mut goes_on) = ([nothing; FEW], [0; FEW]);
        for i in 0..rows {
            (first[i], goes_on[i]) = (x.wrapping_offset(i as isize * row_stride), usize::MAX);
        }
        FewRows { first, goes_on, fours: rows.div_ceil(4) }
    }

    /// Where the columns from `start` on are in four of them.
    #[inline(always)]
    fn four(&self, i: usize, start: usize) -> [*const T; 4] {
        let mut four = [self.first[0]; 4];
        for (r, row) in four.iter_mut().enumerate() {
            *row = self.first[4 * i + r].wrapping_add(start & self.goes_on[4 * i + r]);
        }
        four
    }
}

/// [`fold_rows`] of at most `FEW` long rows: an accumulator is loaded and stored once for all of them.
///
/// # Safety
/// As there; at least `LOOK` columns.
#[inline(always)]
unsafe fn fold_few_rows<I: Isa, F: Fold>(
    f: F,
    x: *const F::In,
    rows: (usize, isize),
    neutral: F::In,
    params: &[F::Param],
    states: &mut [F::State],
) {
    let (cols, nothing) = (states.len(), [neutral; LOOK]);
    let rows = FewRows::new(x, rows, nothing.as_ptr());
    let mut done = 0;
    while done < cols {
        // The last columns are folded with some before them, whose accumulators are left alone.
        let start = done.min(cols - LOOK);
        let (params, states) = (&params[start..], &mut states[start..]);
        let (Some(params), Some(states)) = (params.first_chunk(), states.first_chunk_mut()) else { break };
        // SAFETY: these columns of the rows exist.
        unsafe { fold_few::<I, F>(f, &rows, start, done - start, params, states) };
        done = start + LOOK;
    }
}

/// Folds `LOOK` columns of few rows from `start` on, but not the first `skip` columns.
///
/// # Safety
/// The columns must be valid.
#[inline(always)]
pub(super) unsafe fn fold_few<I: Isa, F: Fold>(
    f: F,
    rows: &FewRows<F::In>,
    start: usize,
    skip: usize,
    params: &[F::Param; LOOK],
    states: &mut [F::State; LOOK],
) {
    // SAFETY: the caller's columns.
    unsafe {
        if const { !F::QUICK } || !fold_fours::<I, F, true>(f, rows, start, skip, params, states) {
            fold_fours::<I, F, false>(f, rows, start, skip, params, states);
        }
    }
}

/// [`fold_part`] of `LOOK` columns of any number of times four rows.
///
/// # Safety
/// The columns must be valid.
#[inline(always)]
unsafe fn fold_fours<I: Isa, F: Fold, const QUICK: bool>(
    f: F,
    rows: &FewRows<F::In>,
    start: usize,
    skip: usize,
    params: &[F::Param; LOOK],
    states: &mut [F::State; LOOK],
) -> bool {
    let mut s = *states;
    let mut rare = const { aligned([0u32; LOOK]) };
    for i in 0..rows.fours {
        // SAFETY: the caller's columns, and as many elements of nothing.
        unsafe { fold_four_rows::<I, F, QUICK, LOOK>(f, rows.four(i, start), params, &mut s, &mut rare) };
    }
    keep::<F, QUICK, LOOK>(&s, &rare, skip, states)
}

/// Folds row by row into one accumulator per column, and asks for rows beforehand if told so.
///
/// # Safety
/// `x` must be valid for `rows` rows of `cols` elements, `row_stride` elements apart; the slices hold `cols` values.
#[inline(always)]
unsafe fn fold_rows<I: Isa, F: Fold>(
    f: F,
    x: *const F::In,
    (rows, row_stride): (usize, isize),
    ask: bool,
    cols: usize,
    params: &[F::Param],
    states: &mut [F::State],
) {
    let (params, states) = (&params[..cols], &mut states[..cols]);
    if const { F::QUICK && !I::COMPACT }
        && rows <= FEW
        && cols >= LOOK
        && cols * size_of::<F::In>() > LONG_STRETCH
        && let Some(neutral) = F::neutral()
    {
        // SAFETY: the caller's rows.
        return unsafe { fold_few_rows::<I, F>(f, x, (rows, row_stride), neutral, params, states) };
    }
    // Short stretches of many rows are too many streams for the hardware to see them coming: rows that no cache holds are asked
    // for while those before them, `AHEAD` bytes of them, are folded.
    let ahead = (AHEAD / (cols * size_of::<F::In>()).max(1)).max(ROWS) as isize * row_stride;
    let ahead = if ask { ahead } else { 0 };
    // Of longer ones, what comes next in each comes on from the second-level cache meanwhile, where sums and extremes would wait
    // for it. (Where rows end soon, what follows them would be waited for instead.)
    let near = ask && const { F::QUICK_ROWS } && cols * size_of::<F::In>() > LONG_STRETCH / 2;
    let mut r = 0;
    while const { !I::COMPACT } && cols >= LOOK && r + ROWS <= rows {
        let x = x.wrapping_offset(r as isize * row_stride);
        let mut done = 0;
        while done < cols {
            // The last columns are folded with some before them, whose accumulators are left alone.
            let start = done.min(cols - LOOK);
            let (params, states) = (&params[start..], &mut states[start..]);
            let (Some(params), Some(states)) = (params.first_chunk(), states.first_chunk_mut()) else { break };
            let strides = (row_stride, ahead, if near && start + LOOK < cols { LOOK } else { 0 });
            // SAFETY: rows `r..r + ROWS` and these columns exist.
            unsafe { fold_tile::<I, F>(f, x.wrapping_add(start), strides, done - start, params, states) };
            done = start + LOOK;
        }
        r += ROWS;
    }
    // Few columns (or compact code), four rows at a time.
    while r + 4 <= rows {
        // SAFETY: rows `r..r + 4` exist by the contract.
        let row = |i: usize| unsafe { std::slice::from_raw_parts(x.offset((r + i) as isize * row_stride), cols) };
        let [a, b, c, d] = [row(0), row(1), row(2), row(3)];
        if ask {
            for row in [a, b, c, d] {
                prefetch(row.as_ptr().wrapping_offset(ahead).cast());
            }
        }
        for j in 0..cols {
            states[j] = f.merge(states[j], f.four::<I>([a[j], b[j], c[j], d[j]], params[j]));
        }
        r += 4;
    }
    while r < rows {
        // SAFETY: row `r` exists by the contract.
        let a = unsafe { std::slice::from_raw_parts(x.offset(r as isize * row_stride), cols) };
        for j in 0..cols {
            states[j] = f.merge(states[j], f.one::<I>(a[j], params[j]));
        }
        r += 1;
    }
}

/// Folds rows of contiguous elements into the accumulators of their columns. Where rows lie end to end, those of a few columns
/// are dealt to several accumulators of each.
///
/// # Safety
/// The block's elements must be valid; the slices hold a value for each column.
#[inline(always)]
pub(super) unsafe fn fold_columns<I: Isa, F: Fold>(f: F, b: Block, params: &[F::Param], states: &mut [F::State]) {
    let Block { rows, row_stride, cols, .. } = b;
    let x = b.data.cast::<F::In>();
    let deal = if row_stride == cols as isize { dealt(rows, cols) } else { 1 };
    let mut accumulators = const { aligned([F::IDENTITY; LANES]) };
    let mut lane_params = aligned([params[0]; LANES]);
    if deal > 1 && size_of::<F::Param>() > 0 {
        for j in 0..deal * cols {
            lane_params[j] = params[j % cols];
        }
    }
    let (lanes, full) = (deal * cols, rows / deal);
    // Dealt, they are `full` rows of `lanes` and then one of what is left. (A loop, so that the code is there once.)
    for part in 0..1 + (deal > 1) as usize {
        let (x, rows, cols) = match part {
            0 => (x, full, lanes),
            _ => (x.wrapping_add(full * lanes), 1, (rows - full * deal) * cols),
        };
        let (stride, params, states) = match deal {
            1 => (row_stride, params, &mut *states),
            _ => (lanes as isize, &lane_params[..], &mut accumulators[..]),
        };
        // SAFETY: the caller's rows.
        unsafe { fold_rows::<I, F>(f, x, (rows, stride), b.far, cols, params, states) };
    }
    if deal == 1 {
        return;
    }
    for j in 0..cols {
        for d in 0..deal {
            states[j] = f.merge(states[j], accumulators[d * cols + j]);
        }
    }
}

/// As many columns make vectors by themselves.
const ENOUGH: usize = 8;
/// Elements of a block of so many columns up to which to clear and join more accumulators than one for each column costs more
/// than it saves.
const SMALL: usize = 2048;

/// How many rows are dealt to accumulators of their own: as many as waste few of the lanes that are folded together, which
/// are whole times `LOOK`.
fn dealt(rows: usize, cols: usize) -> usize {
    if cols >= ENOUGH && rows * cols <= SMALL {
        return 1;
    }
    let of = |tiles: usize| (tiles * LOOK / cols).min(rows / 4);
    let used = |tiles: usize| of(tiles) * cols * 100 / (tiles * LOOK);
    let best = (1..=LANES / LOOK).map(used).max().unwrap_or(0);
    // Of those that are about as good, the fewest.
    (1..=LANES / LOOK).find(|&tiles| used(tiles) + 3 >= best).map_or(1, of).max(1)
}
