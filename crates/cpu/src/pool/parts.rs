//! Windows of a plane, several at a time: beside each other in registers, gathered from wherever they are, or, where they
//! are few and wide, each by parts of its own.

use super::replaces;
use super::window::{Window, Windows};
use crate::math::{Isa, Number, select};

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

/// The elements of a window, from its first one on.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Extent {
    /// How many there are along each axis.
    pub count: [usize; 3],
    /// The distances between them, in the plane.
    pub step: [usize; 3],
}

/// Windows along the width that have the same number of elements, wherever they are.
struct Scattered {
    /// Elements of a window.
    count: usize,
    /// Each window, and its first element.
    windows: Vec<(usize, usize)>,
}

/// Neighbouring windows along the width that have the same number of elements, each as far behind the last.
#[derive(Clone, Copy)]
struct Piece {
    /// The first window.
    window: usize,
    /// How many there are.
    windows: usize,
    /// The first element of the first one.
    start: usize,
    /// Elements of a window.
    count: usize,
    /// The distance between windows.
    stride: usize,
}

/// Windows that are computed at a time, at least.
pub(super) const LANES: usize = 8;

/// The largest distance of windows that are computed from whole vectors of elements.
const FARTHEST: usize = 4;

/// Partial results of a window that is computed by itself.
const PARTS: usize = 16;

impl Piece {
    /// Whether its windows are computed beside each other.
    fn is_dense(&self) -> bool {
        (1..=FARTHEST).contains(&self.stride) && self.windows >= LANES
    }

    /// Whether they are few and wide.
    fn is_wide(&self, step: usize) -> bool {
        step == 1 && self.windows < LANES && self.count >= PARTS
    }
}

/// How the windows of a plane are computed.
pub(super) struct Parts {
    axes: [Vec<Window>; 3],
    input: [usize; 3],
    /// The distance between elements along the width.
    step: usize,
    /// Windows that are beside each other, those that are wide, and all others.
    dense: Vec<Piece>,
    wide: Vec<Piece>,
    others: Vec<Scattered>,
    /// The rows of windows, those of one extent together.
    rows: Vec<usize>,
}

impl Parts {
    /// Those of windows over planes of the sizes `input`. Where code is [small](Isa::COMPACT), none are dense or wide.
    #[inline(always)]
    pub(super) fn new<L: Isa>(windows: &Windows, input: [usize; 3]) -> Parts {
        Parts::of(windows, input, const { !L::COMPACT })
    }

    fn of(windows: &Windows, input: [usize; 3], fast: bool) -> Parts {
        let (axes, input) = joined(windows.axes.clone(), input);
        let step = axes[2].first().map_or(1, |w| w.step);
        let (mut dense, mut wide, mut others) = (Vec::new(), Vec::new(), Vec::<Scattered>::new());
        for piece in pieces(&axes[2], step, input[2]) {
            match piece {
                p if fast && p.is_dense() => dense.push(p),
                p if fast && p.is_wide(step) => wide.push(p),
                p => {
                    let windows = (0..p.windows).map(|w| (p.window + w, p.start + w * p.stride));
                    match others.iter_mut().find(|o| o.count == p.count) {
                        Some(o) => o.windows.extend(windows),
                        None => others.push(Scattered { count: p.count, windows: windows.collect() }),
                    }
                }
            }
        }
        let height = axes[1].len();
        let mut rows: Vec<usize> = (0..axes[0].len() * height).collect();
        if !others.is_empty() {
            rows.sort_by_key(|row| (axes[0][row / height].count, axes[1][row % height].count));
        }
        Parts { axes, input, step, dense, wide, others, rows }
    }

    /// What windows of an axis of depth and one of height read, and where their first line begins.
    #[inline(always)]
    fn lines(&self, depth: usize, height: usize, width: usize) -> (Extent, usize) {
        let (d, h) = (&self.axes[0][depth], &self.axes[1][height]);
        let [_, rows, columns] = self.input;
        let step = [d.step * rows * columns, h.step * columns, self.step];
        (Extent { count: [d.count, h.count, width], step }, (d.start * rows + h.start) * columns)
    }

    /// The maxima or sums of the windows of the plane at `x`, from `zero` on, and with `INDEX` where the maxima are.
    ///
    /// # Safety
    /// The plane has the sizes that this was made for; the other arrays have a place for every window, that of indices
    /// only with `INDEX`.
    #[inline(always)]
    pub(super) unsafe fn fill<L: Isa, C: Number + PartialOrd, I: Index, const INDEX: bool>(
        &self,
        x: *const C,
        max: bool,
        zero: C,
        row: *mut C,
        at: *mut I,
    ) {
        let [depth, height, width] = [self.axes[0].len(), self.axes[1].len(), self.axes[2].len()];
        let lines = if const { L::COMPACT } { 0 } else { depth * height };
        for line in 0..lines {
            let (d, h) = (line / height, line % height);
            let first = line * width;
            // SAFETY: the caller's: these are windows of the plane, and their places.
            unsafe {
                let to = (row.add(first), if INDEX { at.add(first) } else { at });
                for piece in &self.dense {
                    let (extent, start) = self.lines(d, h, piece.count);
                    beside::<C, I, INDEX>((x, start), &extent, piece, max, zero, to);
                }
                for piece in &self.wide {
                    let (extent, start) = self.lines(d, h, piece.count);
                    alone::<C, I, INDEX>((x, start), &extent, piece, max, zero, to);
                }
            }
        }
        for some in &self.others {
            // SAFETY: as above.
            unsafe { self.gather::<C, I, INDEX>(some, x, max, zero, row, at) };
        }
    }

    /// Scattered windows of every row, those of several rows together.
    #[inline(always)]
    unsafe fn gather<C: Number + PartialOrd, I: Index, const INDEX: bool>(
        &self,
        scattered: &Scattered,
        x: *const C,
        max: bool,
        zero: C,
        result: *mut C,
        at: *mut I,
    ) {
        let (height, width) = (self.axes[1].len(), self.axes[2].len());
        let (mut r, mut w) = (0, 0);
        while r < self.rows.len() {
            let mut some = Gathered::default();
            let mut place = [0; LANES];
            while r < self.rows.len() && some.len < LANES {
                let row = self.rows[r];
                let (extent, first) = self.lines(row / height, row % height, scattered.count);
                if some.len > 0 && extent != some.extent {
                    break;
                }
                some.extent = extent;
                for &(window, start) in scattered.windows[w..].iter().take(LANES - some.len) {
                    place[some.len] = row * width + window;
                    some.push(first + start, first + start);
                    w += 1;
                }
                if w == scattered.windows.len() {
                    (r, w) = (r + 1, 0);
                }
            }
            // SAFETY: the caller's.
            unsafe {
                let (best, index) = some.compute::<C, I, INDEX>(x, some.extent.step, max, zero);
                for i in 0..some.len {
                    *result.add(place[i]) = best[i];
                    if INDEX {
                        *at.add(place[i]) = index[i];
                    }
                }
            }
        }
    }

    /// What sums are divided by, by window: `divisor`, or where it is 0 the window's own.
    pub(super) fn divisors<C: Number>(&self, divisor: i64) -> Vec<C> {
        let [depths, heights, widths] = &self.axes;
        let all = depths.iter().flat_map(|d| heights.iter().map(move |h| d.divisor * h.divisor));
        let all = all.flat_map(|lines| widths.iter().map(move |w| (lines * w.divisor) as i64));
        // A window without elements is zero, whatever its divisor.
        all.map(|own| C::from_i64(if divisor != 0 { divisor } else { own.max(1) })).collect()
    }
}

/// The windows and sizes of a plane whose lines are joined where every window along the width is the whole line.
fn joined(mut axes: [Vec<Window>; 3], mut input: [usize; 3]) -> ([Vec<Window>; 3], [usize; 3]) {
    for _ in 0..2 {
        let width = input[2];
        let whole = matches!(&axes[2][..], [w] if w.count == width && w.step == 1);
        if !whole || axes[1].iter().any(|h| h.step != 1) {
            break;
        }
        let divisor = axes[2][0].divisor;
        let lines = |h: &Window| Window {
            start: h.start * width,
            count: h.count * width,
            step: 1,
            divisor: h.divisor * divisor,
        };
        let one = vec![Window { start: 0, count: 1, step: 1, divisor: 1 }];
        let [depth, height, _] = axes;
        axes = [one, depth, height.iter().map(lines).collect()];
        input = [1, input[0], input[1] * width];
    }
    (axes, input)
}

/// The windows along a line of `width` elements, neighbours together.
fn pieces(windows: &[Window], step: usize, width: usize) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (window, w) in windows.iter().enumerate() {
        let alone = Piece { window, windows: 1, start: w.start, count: w.count, stride: 0 };
        match pieces.last_mut().filter(|p| p.count == w.count && w.start >= p.start) {
            Some(p) if p.windows == 1 => (p.windows, p.stride) = (2, w.start - p.start),
            Some(p) if w.start == p.start + p.windows * p.stride => p.windows += 1,
            _ => pieces.push(alone),
        }
    }
    // Elements between windows are read, too: those behind the last one have to be in the line.
    for i in (0..pieces.len()).rev() {
        let p = pieces[i];
        let last = p.start + (p.windows - 1) * p.stride;
        if p.is_dense() && p.count > 0 && last + (p.count - 1) * step + p.stride > width {
            pieces[i].windows -= 1;
            pieces.insert(i + 1, Piece { window: p.window + p.windows - 1, windows: 1, start: last, ..p });
        }
    }
    pieces
}

/// Windows beside each other, as many as make a few vectors at a time. The last ones overlap those before them: they give
/// the same again.
#[inline(always)]
unsafe fn beside<C: Number + PartialOrd, I: Index, const INDEX: bool>(
    source: (*const C, usize),
    extent: &Extent,
    piece: &Piece,
    max: bool,
    zero: C,
    to: (*mut C, *mut I),
) {
    let most = if const { size_of::<C>() > 4 } { 16 } else { 32 };
    let max = max || INDEX;
    let mut done = 0;
    while done < piece.windows {
        let many = piece.stride <= 2 && piece.windows >= most && piece.windows - done > LANES;
        let n = if many { most } else { LANES };
        let at = done.min(piece.windows - n);
        // SAFETY: the caller's.
        unsafe {
            match (many, piece.stride) {
                (false, 1) => block::<C, I, INDEX, 1, LANES>(source, extent, piece, at, max, zero, to),
                (false, 2) => block::<C, I, INDEX, 2, LANES>(source, extent, piece, at, max, zero, to),
                (false, 3) => block::<C, I, INDEX, 3, LANES>(source, extent, piece, at, max, zero, to),
                (false, _) => block::<C, I, INDEX, FARTHEST, LANES>(source, extent, piece, at, max, zero, to),
                (_, 1) if const { size_of::<C>() > 4 } => {
                    block::<C, I, INDEX, 1, 16>(source, extent, piece, at, max, zero, to)
                }
                (_, 1) => block::<C, I, INDEX, 1, 32>(source, extent, piece, at, max, zero, to),
                _ if const { size_of::<C>() > 4 } => {
                    block::<C, I, INDEX, 2, 16>(source, extent, piece, at, max, zero, to)
                }
                _ => block::<C, I, INDEX, 2, 32>(source, extent, piece, at, max, zero, to),
            }
        }
        done = at + n;
    }
}

/// `N` windows from the piece's `at`-th on, at a distance of `D` elements.
#[inline(always)]
unsafe fn block<C: Number + PartialOrd, I: Index, const INDEX: bool, const D: usize, const N: usize>(
    (x, line): (*const C, usize),
    extent: &Extent,
    piece: &Piece,
    at: usize,
    max: bool,
    zero: C,
    (result, index): (*mut C, *mut I),
) {
    let start = line + piece.start + at * piece.stride;
    // SAFETY: the caller's; places of these windows.
    unsafe {
        let (best, place) = match max {
            true => several::<C, I, INDEX, true, D, N>(x, extent, start, zero),
            false => several::<C, I, INDEX, false, D, N>(x, extent, start, zero),
        };
        result.add(piece.window + at).cast::<[C; N]>().write_unaligned(best);
        if INDEX {
            index.add(piece.window + at).cast::<[I; N]>().write_unaligned(place);
        }
    }
}

/// The maxima or sums of `N` windows, the first of which begins at `start`.
#[inline(always)]
unsafe fn several<C, I, const INDEX: bool, const MAX: bool, const D: usize, const N: usize>(
    x: *const C,
    extent: &Extent,
    start: usize,
    zero: C,
) -> ([C; N], [I; N])
where
    C: Number + PartialOrd,
    I: Index,
{
    let mut best = [zero; N];
    let mut place = [I::default(); N];
    if INDEX {
        for (i, place) in place.iter_mut().enumerate() {
            *place = I::of(start).plus(i * D);
        }
    }
    for i in 0..extent.count[0] {
        for j in 0..extent.count[1] {
            for k in 0..extent.count[2] {
                let first = start + i * extent.step[0] + j * extent.step[1] + k * extent.step[2];
                // SAFETY: elements of the windows, and those between them.
                let values = unsafe { x.add(first).cast::<[[C; D]; N]>().read_unaligned() };
                for i in 0..N {
                    let x = values[i][0];
                    if MAX {
                        let wins = replaces(x, best[i]);
                        best[i] = select(wins, x, best[i]);
                        if INDEX {
                            place[i] = select(wins, I::of(first).plus(i * D), place[i]);
                        }
                    } else {
                        best[i] = best[i].add(x);
                    }
                }
            }
        }
    }
    (best, place)
}

/// Windows of one extent, wherever they are.
#[derive(Default)]
pub(super) struct Gathered {
    extent: Extent,
    /// How many there are.
    pub len: usize,
    /// Where each begins, in memory.
    start: [usize; LANES],
    /// The index of its first element.
    index: [usize; LANES],
}

impl Gathered {
    /// None yet, of this extent.
    #[inline(always)]
    pub(super) fn of(extent: Extent) -> Gathered {
        Gathered { extent, ..Gathered::default() }
    }

    /// One more, of fewer than there are lanes.
    #[inline(always)]
    pub(super) fn push(&mut self, start: usize, index: usize) {
        (self.start[self.len], self.index[self.len]) = (start, index);
        self.len += 1;
    }

    /// Their maxima or sums, and with `INDEX` where the maxima are. Elements are so far `apart` in memory along each axis.
    ///
    /// # Safety
    /// The windows are inside the array at `x`.
    #[inline(always)]
    pub(super) unsafe fn compute<C: Number + PartialOrd, I: Index, const INDEX: bool>(
        &mut self,
        x: *const C,
        apart: [usize; 3],
        max: bool,
        zero: C,
    ) -> ([C; LANES], [I; LANES]) {
        let max = max || INDEX;
        let Extent { count, step } = self.extent;
        // What is left of the lanes does the first window again.
        for i in self.len..LANES {
            (self.start[i], self.index[i]) = (self.start[0], self.index[0]);
        }
        let mut best = [zero; LANES];
        let mut first = [I::default(); LANES];
        for (first, index) in first.iter_mut().zip(self.index) {
            *first = I::of(index);
        }
        let mut place = first;
        for i in 0..count[0] {
            for j in 0..count[1] {
                for k in 0..count[2] {
                    let element = i * step[0] + j * step[1] + k * step[2];
                    let at = i * apart[0] + j * apart[1] + k * apart[2];
                    let mut values = [zero; LANES];
                    for (value, start) in values.iter_mut().zip(self.start) {
                        // SAFETY: the caller's.
                        *value = unsafe { *x.add(start + at) };
                    }
                    for i in 0..LANES {
                        if max {
                            let wins = replaces(values[i], best[i]);
                            best[i] = select(wins, values[i], best[i]);
                            if INDEX {
                                place[i] = select(wins, first[i].plus(element), place[i]);
                            }
                        } else {
                            best[i] = best[i].add(values[i]);
                        }
                    }
                }
            }
        }
        (best, place)
    }
}

/// Of two results of parts of a window, in order, that of both.
#[inline(always)]
fn join<C: Number + PartialOrd>(a: C, b: C, max: bool) -> C {
    if max { select(replaces(b, a), b, a) } else { a.add(b) }
}

/// Windows of neighbouring elements, one after the other, each line by parts that are joined then.
#[inline(always)]
unsafe fn alone<C: Number + PartialOrd, I: Index, const INDEX: bool>(
    (x, line): (*const C, usize),
    extent: &Extent,
    piece: &Piece,
    max: bool,
    zero: C,
    (row, at): (*mut C, *mut I),
) {
    let max = max || INDEX;
    for w in 0..piece.windows {
        let start = line + piece.start + w * piece.stride;
        let (mut best, mut place) = (zero, start);
        for i in 0..extent.count[0] {
            for j in 0..extent.count[1] {
                let first = start + i * extent.step[0] + j * extent.step[1];
                // SAFETY: the caller's.
                unsafe {
                    let run = std::slice::from_raw_parts(x.add(first), piece.count);
                    let value = joined_run(run, max, zero);
                    if INDEX && replaces(value, best) {
                        place = first + position(run, value);
                    }
                    best = join(best, value, max);
                }
            }
        }
        // SAFETY: this window's place.
        unsafe {
            *row.add(piece.window + w) = best;
            if INDEX {
                *at.add(piece.window + w) = I::of(place);
            }
        }
    }
}

/// The maximum or the sum of a run.
#[inline(always)]
fn joined_run<C: Number + PartialOrd>(run: &[C], max: bool, zero: C) -> C {
    let mut parts = [zero; PARTS];
    let (chunks, rest) = run.as_chunks::<PARTS>();
    for chunk in chunks {
        for i in 0..PARTS {
            parts[i] = join(parts[i], chunk[i], max);
        }
    }
    let mut half = PARTS / 2;
    while half > 0 {
        for i in 0..half {
            parts[i] = join(parts[i], parts[i + half], max);
        }
        half /= 2;
    }
    let mut best = parts[0];
    for x in rest {
        best = join(best, *x, max);
    }
    best
}

/// Where a run has its maximum: of equal numbers the first, of NaNs the last.
#[inline(always)]
#[allow(clippy::eq_op)]
fn position<C: Number + PartialOrd>(run: &[C], value: C) -> usize {
    if value != value {
        return run.iter().rposition(|x| x != x).unwrap_or(0);
    }
    let (chunks, rest) = run.as_chunks::<PARTS>();
    for (c, chunk) in chunks.iter().enumerate() {
        let mut found = false;
        for x in chunk {
            found |= *x == value;
        }
        if found {
            return c * PARTS + chunk.iter().position(|x| *x == value).unwrap_or(0);
        }
    }
    chunks.len() * PARTS + rest.iter().position(|x| *x == value).unwrap_or(0)
}
