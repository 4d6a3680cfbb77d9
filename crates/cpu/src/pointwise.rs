//! Pointwise kernels: 1-d strips, and the driver that walks, splits and converts around them.
//!
//! A pointwise operator is a type that implements [`Map`] for each element type it supports: a function from `N`
//! elements to one. [`strip`] turns it into a loop for one instruction set. That loop is all that is compiled per
//! (operator, dtype); broadcasting, threads and dtype conversion ([`run`]) are compiled once.

mod broadcast;
mod expand;
mod float16;
mod halves;
mod pairs;
#[cfg(test)]
mod tests;
mod turned;

use crate::buffer::aligned;
use crate::copy::{CastStrip, cast_strip, stream};
use crate::math::{Isa, Kernel, Level, entry, highest, level};
use crate::prefetch::{prefetch_run_near, streams_are_asked_for};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::iter::{Iter, Rows};
use flambeau_base::{DType, Element, Scalar};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// The most operands (output included) that a pointwise kernel has.
pub const MAX_OPERANDS: usize = 5;
/// The most scalar parameters.
pub const MAX_PARAMS: usize = 4;
/// Elements converted at a time: a few kilobytes per operand, so that they stay in the first-level cache.
const BLOCK: usize = 512;

/// The elements of a row from which on it is worth laying out strided ones side by side.
const STRIDED: usize = 64;

/// What a strip is given: addresses and byte strides of the output and the inputs, the number of elements and of rows of
/// them, and the scalar parameters.
#[derive(Clone, Copy)]
pub struct StripArgs {
    /// Output first.
    pub data: [*mut u8; MAX_OPERANDS],
    /// In bytes.
    pub strides: [isize; MAX_OPERANDS],
    /// Elements of a row.
    pub n: usize,
    /// How many rows: one, unless [`Strip::rows`].
    pub rows: usize,
    /// From one row to the next, in bytes.
    pub row_strides: [isize; MAX_OPERANDS],
    /// Whether the output is too large for any cache and not an input: its stores should go past them.
    pub streams: bool,
    /// Parameters, in the schema's order.
    pub params: [Scalar; MAX_PARAMS],
}

/// A loop over rows. The operands are of the strip's dtypes, valid for `rows` times `n` elements at their strides. The
/// output may be one of the inputs; of one that it overlaps otherwise, it is not specified which elements are read before
/// they are written, but no others are read or written.
pub type StripFn = unsafe fn(StripArgs);

/// A strip and the dtype it writes.
#[derive(Clone, Copy)]
pub struct Strip {
    /// The loop.
    pub run: StripFn,
    /// What it writes; its inputs are all of the dtype it was asked for.
    pub out: DType,
    /// Whether it takes more than one row.
    pub rows: bool,
    /// The loop over contiguous `bfloat16`, where there is one.
    bf16: Option<StripFn>,
    /// The loop over contiguous `float16`, where there is one.
    f16: Option<StripFn>,
    /// What it does to a half's sign, if it does nothing else.
    sign: Option<Sign>,
}

/// The bits of a half that are kept, and those that are then flipped.
pub type Sign = [u16; 2];

impl Strip {
    /// The strip for the dtype `other` where it does the same to the bits of `dtype`.
    pub fn of_bits(self, dtype: DType, other: DType) -> Strip {
        Strip { out: if self.out == dtype { other } else { self.out }, ..self }
    }

    /// Says that the strip, of one operand, changes nothing but signs: halves need no conversion for it.
    pub fn of_sign(self, sign: Sign) -> Strip {
        Strip { sign: Some(sign), ..self }
    }
}

/// A function from `N` elements of type `T` to one of type `Out`.
pub trait Map<T: Element, const N: usize> {
    /// What it gives.
    type Out: Element;
    /// Whether there are two forms: `map_chosen` runs over every block of elements of which all are `chosen`, and `map`
    /// (which must then be right for any) over the others. It keeps rare arguments and a parameter's choice out of loops
    /// that should vectorise.
    const CHOICE: bool = false;
    /// Whether an element takes so long that it does not matter where numbers among the operands come from. Loops of their
    /// own for them treble the code, and buy a cheap function a tenth of its time.
    /// (Rounding to whole numbers says so, too: where numbers are converted in registers, compilers make no vectors of it.)
    const COSTLY: bool = false;
    /// Whether numbers among the operands are common, so that they get loops of their own.
    const NUMBERS: bool = true;
    /// The highest level that it is worth compiling for: a lower one where it is hardly ever asked for, or where elements are
    /// computed one after the other.
    const HIGHEST: Level = Level::Avx512;
    /// Whether it is so few operations that real numbers come and go no sooner with wider vectors (Zen 4 takes 0.94 to 1.06 of
    /// the time with AVX-512, from its caches): those of `bfloat16`, which are converted on the way, and complex ones do.
    const LIGHT: bool = false;
    /// Whether it asks for the scalar parameters: most do not, and converting them is half of a small strip's code.
    const PARAMS: bool = true;
    /// The function, `#[inline(always)]`; `p` are the scalar parameters converted to `T`.
    fn map<I: Isa>(x: [T; N], p: &[T; MAX_PARAMS]) -> Self::Out;
    /// Whether `map_chosen` may stand for `map`.
    #[inline(always)]
    fn chosen(_x: [T; N], _p: &[T; MAX_PARAMS]) -> bool {
        false
    }
    /// The form for chosen elements.
    #[inline(always)]
    fn map_chosen<I: Isa>(x: [T; N], p: &[T; MAX_PARAMS]) -> Self::Out {
        Self::map::<I>(x, p)
    }
    /// Whether there is `map_vectors`, which is asked with AVX-512.
    const VECTORS: bool = false;
    /// What `map` or, where it chooses, `map_chosen` gives for each of `C` elements, to the bit, where there is a form for
    /// many at once.
    #[inline(always)]
    fn map_vectors<I: Isa, const C: usize>(_x: [[T; C]; N], _p: &[T; MAX_PARAMS]) -> Option<[Self::Out; C]> {
        None
    }
    /// Whether `map_halves` is another form.
    const HALVES: bool = false;
    /// The form for chosen elements that are `bfloat16`, of results that are rounded to such.
    #[inline(always)]
    fn map_halves<I: Isa>(x: [T; N], p: &[T; MAX_PARAMS]) -> Self::Out {
        Self::map_chosen::<I>(x, p)
    }
}

/// The strip of `M` over `T` for an instruction set.
pub fn strip<M: Map<T, N>, T: Element, const N: usize>(level: Level) -> Strip {
    Strip {
        run: entry::<MapStrip<M, T, N>>(level),
        out: M::Out::DTYPE,
        rows: MapStrip::<M, T, N>::ROWS,
        bf16: pairs::strip::<M, T, N>(level),
        f16: float16::strip::<M, T, N>(level),
        sign: None,
    }
}

/// The parameters as a strip's elements. (Compiled once for a type, not in every strip.)
#[inline(never)]
fn converted_params<T: Element>(params: &[Scalar; MAX_PARAMS]) -> [T; MAX_PARAMS] {
    params.map(T::from_scalar)
}

struct MapStrip<M, T, const N: usize>(PhantomData<(M, T)>);

/// Elements computed into a local buffer before they are stored: it lets the compiler vectorise without knowing
/// whether the output is one of the inputs.
const CHUNK: usize = 64;

/// The same of elements larger than a byte: few enough vectors for the buffer to stay in registers.
const SHORT: usize = 32;

/// Bytes between what is computed and what is asked for, where that helps: half as many help less, twice as many no more.
const ASKED_AHEAD: usize = 4096;

/// Elements that whole chunks leave, from which on another chunk takes less time than one after the other.
const FEW: usize = 4;

impl<M: Map<T, N>, T: Element, const N: usize> Kernel for MapStrip<M, T, N> {
    type Args = StripArgs;
    type Output = ();
    const HIGHEST: Level = if M::LIGHT && matches!(T::DTYPE, DType::F32 | DType::F64) {
        Level::Avx2
    } else if (M::HIGHEST as u8) < highest::<T>() as u8 {
        M::HIGHEST
    } else {
        highest::<T>()
    };

    #[inline(always)]
    unsafe fn run<I: Isa>(a: StripArgs) {
        let p = if const { M::PARAMS } { converted_params::<T>(&a.params) } else { [T::default(); MAX_PARAMS] };
        // SAFETY: the caller's.
        unsafe {
            let done = Self::dense_rows::<I>(&a, &p);
            let (mut at, mut row, mut more) = (a.data, 0, done < a.n);
            while more {
                Self::rest::<I>(&a, at, &p, done);
                more = Self::next_row(&a, &mut at, &mut row);
            }
        }
    }
}

impl<M: Map<T, N>, T: Element, const N: usize> MapStrip<M, T, N> {
    /// Whether the strip gets loops of its own for a number among its operands. In all of them, they would be a third of
    /// their code.
    const COMMON: bool = (N == 2 || N == 3) && M::NUMBERS && Self::USUAL;
    /// Whether it is cheap, not rare, and of a dtype that is computed with.
    const USUAL: bool = Self::CHEAP
        && M::HIGHEST as u8 == Level::Avx512 as u8
        && matches!(T::DTYPE, DType::F32 | DType::F64 | DType::I64);
    /// Whether a chunk stays in registers. (Of complex numbers, whose parts are told apart on the way, it need not: read first,
    /// those of `complex128` took 1.5 times as long.)
    const CHEAP: bool = !M::CHOICE && !M::COSTLY && !matches!(T::DTYPE, DType::Complex64 | DType::Complex128);
    /// Whether it loops over rows: short ones come from broadcasting, so from two operands. Other strips are called row
    /// by row.
    const ROWS: bool = Self::USUAL && N == 2;
    /// Elements of a chunk.
    const CHUNK: usize = if size_of::<T>() > 1 && size_of::<M::Out>() > 1 { SHORT } else { CHUNK };

    /// Which operand is a number: operand `k`.
    const fn only(k: usize) -> [bool; N] {
        let mut fixed = [false; N];
        fixed[k] = true;
        fixed
    }

    #[inline(always)]
    fn one<I: Isa>(x: [T; N], p: &[T; MAX_PARAMS]) -> M::Out {
        if M::CHOICE && M::chosen(x, p) { M::map_chosen::<I>(x, p) } else { M::map::<I>(x, p) }
    }

    /// Moves on to where the operands of the next row start, if there is one. (Rows are loops around it: of a function that
    /// takes what to do with each, nobody knows that the compiler puts it in line, among code for the machine's level.)
    #[inline(always)]
    fn next_row(a: &StripArgs, at: &mut [*mut u8; MAX_OPERANDS], row: &mut usize) -> bool {
        // (What a constant rules out is not compiled.)
        if const { !Self::ROWS } || *row + 1 >= a.rows {
            return false;
        }
        for (at, stride) in at.iter_mut().zip(a.row_strides).take(N + 1) {
            *at = at.wrapping_offset(stride);
        }
        *row += 1;
        true
    }

    /// The chunks of all rows, where they are dense; gives how many elements of each row these are.
    ///
    /// # Safety
    /// As [`StripFn`].
    #[inline(always)]
    unsafe fn dense_rows<I: Isa>(a: &StripArgs, p: &[T; MAX_PARAMS]) -> usize {
        let (input, output) = (size_of::<T>() as isize, size_of::<M::Out>() as isize);
        let mut dense = a.strides[0] == output;
        for k in 1..=N {
            dense &= a.strides[k] == input || a.strides[k] == 0;
        }
        if const { I::COMPACT } || !dense || a.n < Self::CHUNK {
            return 0;
        }
        // SAFETY: the strides are as the arm says, and the caller vouches for the addresses.
        unsafe {
            if const { Self::COMMON } && a.strides[N] == 0 {
                Self::dense_rows_of::<I>(a, p, Self::only(N - 1))
            } else if const { Self::COMMON && N == 2 } && a.strides[1] == 0 {
                Self::dense_rows_of::<I>(a, p, Self::only(0))
            } else {
                Self::dense_rows_of::<I>(a, p, [false; N])
            }
        }
    }

    /// The same of rows of which some operands are a number each.
    ///
    /// # Safety
    /// As [`MapStrip::dense`].
    #[inline(always)]
    unsafe fn dense_rows_of<I: Isa>(a: &StripArgs, p: &[T; MAX_PARAMS], fixed: [bool; N]) -> usize {
        let (mut at, mut row) = (a.data, 0);
        loop {
            // SAFETY: the caller's.
            let done = unsafe { Self::dense::<I>(a, at, p, fixed) };
            if !Self::next_row(a, &mut at, &mut row) {
                return done;
            }
        }
    }

    /// What is left of a row from element `done` on.
    ///
    /// # Safety
    /// As [`StripFn`].
    #[inline(always)]
    unsafe fn rest<I: Isa>(a: &StripArgs, at: [*mut u8; MAX_OPERANDS], p: &[T; MAX_PARAMS], done: usize) {
        for i in done as isize..a.n as isize {
            // SAFETY: the caller's.
            unsafe {
                let mut x = [T::default(); N];
                for k in 0..N {
                    x[k] = (at[k + 1].wrapping_offset(a.strides[k + 1] * i) as *const T).read_unaligned();
                }
                (at[0].wrapping_offset(a.strides[0] * i) as *mut M::Out).write_unaligned(Self::one::<I>(x, p));
            }
        }
    }

    /// Contiguous output of a chunk at least, each input contiguous or one number. Of a number that is not known to be one
    /// (`fixed`, a constant at each call), a chunk is laid out that is read again for every chunk of the others, so that
    /// one loop serves every pattern of broadcasting. Gives how many elements it did: chunks only, since a loop of its own
    /// for what they leave would be a third of the code.
    ///
    /// # Safety
    /// As [`StripFn`].
    #[inline(always)]
    unsafe fn dense<I: Isa>(
        a: &StripArgs,
        at: [*mut u8; MAX_OPERANDS],
        p: &[T; MAX_PARAMS],
        fixed: [bool; N],
    ) -> usize {
        let (n, out) = (a.n, at[0] as *mut M::Out);
        let mut spread = [const { MaybeUninit::<[T; CHUNK]>::uninit() }; N];
        // Where each input is, and which bits of an element's index count there: none for a number. (In loops, because what
        // takes a closure need not be inlined, and then nobody knows what is fixed.)
        let mut inputs = [(std::ptr::null::<T>(), 0); N];
        for k in 0..N {
            inputs[k] = (at[k + 1] as *const T, if fixed[k] { 0 } else { usize::MAX });
        }
        let mut numbers = [None; N];
        // SAFETY: each address is valid for the elements its stride reaches, and a number's chunk for as many as are read
        // at once.
        unsafe {
            for k in 0..N {
                if !fixed[k] && a.strides[k + 1] == 0 {
                    inputs[k] = (spread[k].write([inputs[k].0.read_unaligned(); CHUNK]).as_ptr(), 0);
                }
            }
            for k in 0..N {
                if fixed[k] {
                    numbers[k] = Some(inputs[k].0.read_unaligned());
                }
            }
            let streams = a.streams && out.addr().is_multiple_of(64);
            if const { Self::CHUNK == SHORT } {
                Self::chunks::<I, SHORT>(out, &inputs, numbers, p, n, streams)
            } else {
                Self::chunks::<I, CHUNK>(out, &inputs, numbers, p, n, streams)
            }
        }
    }

    /// Chunks of `C` of `n` elements, of which there are as many at least, and a cache line of results; gives how many
    /// elements these are. If whole ones leave more than a few elements, one more ends where the row does. It is computed
    /// before anything is written, since inputs may lie in the output, and written after all others.
    ///
    /// # Safety
    /// As [`MapStrip::dense`], with room for the results at `out`.
    #[inline(always)]
    unsafe fn chunks<I: Isa, const C: usize>(
        out: *mut M::Out,
        inputs: &[(*const T, usize); N],
        numbers: [Option<T>; N],
        p: &[T; MAX_PARAMS],
        n: usize,
        streams: bool,
    ) -> usize {
        let (whole, last) = (n / C * C, n - C);
        let mut ahead = n - whole >= FEW;
        let done = if ahead { n } else { whole };
        let mut kept = [M::Out::default(); C];
        let mut start = if ahead { last } else { 0 };
        let ask = const { !Self::CHEAP } && streams && streams_are_asked_for();
        loop {
            if ask {
                for k in 0..N {
                    if numbers[k].is_none() {
                        // (Of a number's chunk, for which an index counts no bits, always the same lines.)
                        let next = inputs[k].0.wrapping_add(start & inputs[k].1).cast::<u8>();
                        prefetch_run_near(next.wrapping_add(ASKED_AHEAD), C * size_of::<T>());
                    }
                }
            }
            // SAFETY: the caller's elements.
            let results = unsafe { Self::chunk::<I, C>(Self::from(inputs, start), numbers, p) };
            if ahead {
                (kept, start, ahead) = (results, 0, false);
                continue;
            }
            // SAFETY: as above.
            unsafe {
                if streams {
                    stream::store::<I, _, C>(out.add(start), &results);
                } else {
                    (out.add(start) as *mut [M::Out; C]).write_unaligned(results);
                }
            }
            start += C;
            if start == whole {
                break;
            }
        }
        if done > whole {
            // SAFETY: as above.
            unsafe { (out.add(last) as *mut [M::Out; C]).write_unaligned(kept) };
        }
        done
    }

    /// The addresses from element `start` on.
    ///
    /// # Safety
    /// The inputs, of which a number's index counts no bits, have that many.
    #[inline(always)]
    unsafe fn from(inputs: &[(*const T, usize); N], start: usize) -> [*const T; N] {
        let mut from = [std::ptr::null(); N];
        for k in 0..N {
            // SAFETY: the caller's.
            from[k] = unsafe { inputs[k].0.add(start & inputs[k].1) };
        }
        from
    }

    /// Element `i` from each address, or the number that stands for all of an operand.
    ///
    /// # Safety
    /// The elements are readable.
    #[inline(always)]
    unsafe fn load(from: [*const T; N], numbers: [Option<T>; N], i: usize) -> [T; N] {
        let mut x = [T::default(); N];
        for k in 0..N {
            x[k] = match numbers[k] {
                Some(number) => number,
                // SAFETY: the caller's.
                None => unsafe { from[k].add(i).read_unaligned() },
            };
        }
        x
    }

    /// The results of a chunk, read as [`MapStrip::load`] reads them.
    ///
    /// # Safety
    /// They are readable.
    #[inline(always)]
    unsafe fn chunk<I: Isa, const C: usize>(
        from: [*const T; N],
        numbers: [Option<T>; N],
        p: &[T; MAX_PARAMS],
    ) -> [M::Out; C] {
        // (In memory where the loops below are long.)
        let mut results = aligned([M::Out::default(); C]);
        // SAFETY: the caller's.
        unsafe {
            if const { M::VECTORS && I::LEVEL as u8 == Level::Avx512 as u8 } {
                let mut x = [[T::default(); C]; N];
                for (k, operand) in x.iter_mut().enumerate() {
                    for (i, x) in operand.iter_mut().enumerate() {
                        *x = Self::load(from, numbers, i)[k];
                    }
                }
                if let Some(results) = M::map_vectors::<I, C>(x, p) {
                    return results;
                }
            }
            if const { Self::CHEAP } {
                // Read first: the compiler need not ask then whether operands lie in the results.
                let mut x = [[T::default(); C]; N];
                for k in 0..N {
                    if numbers[k].is_none() {
                        x[k] = from[k].cast::<[T; C]>().read_unaligned();
                    }
                }
                for (i, r) in results.iter_mut().enumerate() {
                    let mut element = [T::default(); N];
                    for k in 0..N {
                        element[k] = numbers[k].unwrap_or(x[k][i]);
                    }
                    *r = M::map::<I>(element, p);
                }
                return *results;
            }
            // Counted in an integer, and without stopping early, so that the check vectorises.
            let mut rare = 0u32;
            if M::CHOICE {
                for i in 0..C {
                    rare |= !M::chosen(Self::load(from, numbers, i), p) as u32;
                }
            }
            if M::CHOICE && rare == 0 {
                for (i, r) in results.iter_mut().enumerate() {
                    *r = M::map_chosen::<I>(Self::load(from, numbers, i), p);
                }
            } else {
                for (i, r) in results.iter_mut().enumerate() {
                    *r = M::map::<I>(Self::load(from, numbers, i), p);
                }
            }
        }
        *results
    }
}

/// One operand of [`run`]: where it is, its strides in bytes (one per dim, 0 where broadcast), and its dtype.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    /// The first element.
    pub data: *mut u8,
    /// In bytes.
    pub strides: &'a [isize],
    /// Of the memory; it is converted to and from the strip's dtype on the way.
    pub dtype: DType,
}

/// Runs a strip over operands of shape `sizes`, the output first, converting where an operand's dtype is not the
/// strip's (`compute` for inputs, [`Strip::out`] for the output).
///
/// # Safety
/// Every address is valid over its strides. (What the output may overlap: see [`StripFn`].)
pub unsafe fn run(strip: Strip, compute: DType, params: [Scalar; MAX_PARAMS], sizes: &[i64], operands: &[Operand<'_>]) {
    let n = operands.len();
    debug_assert!(n <= MAX_OPERANDS);
    let mut once = [const { None }; MAX_OPERANDS];
    let replaced: smallvec::SmallVec<[Operand<'_>; MAX_OPERANDS]>;
    let mut operands = operands;
    if FastPath::PointwiseBroadcast.is_on() && operands[1..].iter().any(|o| o.dtype != compute) {
        for (once, operand) in once.iter_mut().zip(operands).skip(1) {
            // SAFETY: the caller's operand.
            *once = unsafe { broadcast::Converted::of(operand, compute, sizes) };
        }
        replaced = broadcast::replaced(operands, &mut once);
        operands = &replaced;
    }
    let list: smallvec::SmallVec<[(*mut u8, &[isize]); MAX_OPERANDS]> =
        operands.iter().map(|o| (o.data, o.strides)).collect();
    let iter = Iter::new(sizes, &list);
    if let (Some(sign), [out, x]) = (strip.sign, operands)
        && out.dtype == x.dtype
        && matches!(x.dtype, DType::F16 | DType::BF16)
        && FastPath::PointwiseSign.is_on()
    {
        let strip = entry::<SignStrip>(level());
        // SAFETY: the iterator hands out elements within the operands, which are halves.
        return iter
            .for_each(&|data, strides, n| unsafe { strip(([data[0], data[1]], [strides[0], strides[1]], n, sign)) });
    }
    let mut converts: [Option<CastStrip>; MAX_OPERANDS] = [None; MAX_OPERANDS];
    let mut sizes_of = [0isize; MAX_OPERANDS];
    for (k, o) in operands.iter().enumerate() {
        let want = if k == 0 { strip.out } else { compute };
        sizes_of[k] = want.size() as isize;
        if o.dtype != want {
            converts[k] = Some(if k == 0 { cast_strip(want, o.dtype) } else { cast_strip(o.dtype, want) });
        }
    }
    let bytes = operands.iter().map(|o| if o.strides.contains(&0) { 0 } else { o.dtype.size() }).sum::<usize>();
    let in_place = operands[1..].iter().any(|o| o.data == operands[0].data);
    let streams = !in_place && stream::streams(iter.numel().saturating_mul(bytes));
    let elements: smallvec::SmallVec<[usize; MAX_OPERANDS]> = operands.iter().map(|o| o.dtype.size()).collect();
    let turned = turned::Turned::of(&iter, &elements);
    // Other strided operands go through buffers too: a strip is a loop of vectors only where they are dense. Laying out
    // reads what lies between elements, so it is not done where the output may lie there.
    let long = iter.shape().first().is_some_and(|&row| row >= STRIDED);
    if turned.is_none() && long && FastPath::PointwiseStrided.is_on() {
        let inner = iter.strides(0);
        for (k, &stride) in inner.iter().enumerate() {
            let apart = k == 0 || inner[0] == strip.out.size() as isize || operands[k].data == operands[0].data;
            if apart && converts[k].is_none() && stride != 0 && stride != sizes_of[k] {
                converts[k] = Some(cast_strip(operands[k].dtype, operands[k].dtype));
            }
        }
    }
    let walk = |rows: &Rows| {
        let rows = |data: &[*mut u8], strides: [&[isize]; 2], counts: [usize; 2]| {
            rows(data, strides, counts);
            if streams {
                stream::finish();
            }
        };
        turned.as_ref().map_or_else(|| iter.for_each_rows(&rows), |turned| turned.for_each_rows(&rows))
    };
    let expands = |data: &[*mut u8], strides: [&[isize]; 2], counts: [usize; 2], converted: bool| {
        counts[1] > 1 && turned.is_none() && expand::fits(data, strides, counts, &elements, converted)
    };
    if converts.iter().all(Option::is_none) {
        // SAFETY: elements of the operands, or copies of them.
        let strip_of_row = |data: &[*mut u8], strides: &[isize], count| unsafe {
            (strip.run)(strip_args(data, strides, count, params, streams))
        };
        return walk(&|data, [inner, outer], [count, rows]| {
            if expands(data, [inner, outer], [count, rows], false) {
                // SAFETY: the iterator hands out elements within the operands, which are of the strip's dtypes.
                return unsafe { expand::run(data, [inner, outer], [count, rows], &elements, &strip_of_row) };
            }
            if streams && turned.is_none() && expand::fits_past(data, [inner, outer], [count, rows], &elements) {
                // SAFETY: as above.
                return unsafe { expand::run_past(data, [inner, outer], [count, rows], &elements, &strip_of_row) };
            }
            let mut args = strip_args(data, inner, count, params, streams);
            if strip.rows {
                args.rows = rows;
                args.row_strides[..outer.len()].copy_from_slice(outer);
                // SAFETY: the iterator hands out elements within the operands.
                return unsafe { (strip.run)(args) };
            }
            for row in 0..rows {
                if row > 0 {
                    args.data.iter_mut().zip(outer).for_each(|(p, s)| *p = p.wrapping_offset(*s));
                }
                // SAFETY: as above.
                unsafe { (strip.run)(args) };
            }
        });
    }
    let half = operands.iter().map(|o| o.dtype).find(|d| matches!(d, DType::BF16 | DType::F16));
    let halves = |o: &Operand<'_>| Some(o.dtype) == half;
    let paired = compute == DType::F32
        && operands[1..].iter().all(|o| halves(o) || o.dtype == compute)
        && if strip.out == compute { halves(&operands[0]) } else { converts[0].is_none() };
    let (loops, path) = match half {
        Some(DType::F16) => (strip.f16, FastPath::PointwiseFloat16),
        _ => (strip.bf16, FastPath::PointwisePairs),
    };
    let (pairs, out) = (loops.filter(|_| paired && path.is_on()), operands[0].dtype);
    let rows_of = |data: &[*mut u8], [inner, outer]: [&[isize]; 2], [count, rows]: [usize; 2]| {
        if let Some(strip) = pairs
            && halves::fit(inner, &converts[..n], out)
        {
            let mut args = strip_args(data, inner, count, params, streams);
            args.rows = rows;
            args.row_strides[..outer.len()].copy_from_slice(outer);
            // SAFETY: the iterator hands out elements within the operands, which are as such a strip takes them.
            return unsafe { halves::run(strip, args, &converts[..n], out.size()) };
        }
        let mut at: smallvec::SmallVec<[*mut u8; MAX_OPERANDS]> = data.into();
        for row in 0..rows {
            if row > 0 {
                at.iter_mut().zip(outer).for_each(|(p, s)| *p = p.wrapping_offset(*s));
            }
            // SAFETY: as above; the buffers hold a block of the widest dtype.
            unsafe { converted(strip, params, &converts[..n], &sizes_of, &at, inner, count) };
        }
    };
    walk(&|data, strides, counts| {
        // (Halves whose rows are a chunk at least are no slower row by row.)
        let whole = pairs.is_some() && counts[0] >= CHUNK && halves::fit(strides[0], &converts[..n], out);
        if !whole && expands(data, strides, counts, true) {
            let one_row = |data: &[*mut u8], inner: &[isize], count| rows_of(data, [inner, &[]], [count, 1]);
            // SAFETY: the iterator hands out elements within the operands.
            return unsafe { expand::run(data, strides, counts, &elements, &one_row) };
        }
        rows_of(data, strides, counts);
    });
}

/// [`Strip::of_sign`], over halves.
struct SignStrip;

impl Kernel for SignStrip {
    /// The output and the input, their strides in bytes, and the number of elements.
    type Args = ([*mut u8; 2], [isize; 2], usize, Sign);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>(([out, x], strides, n, [kept, flipped]): Self::Args) {
        let size = size_of::<u16>() as isize;
        let whole = if strides == [size; 2] { n / CHUNK * CHUNK } else { 0 };
        // SAFETY: the caller's elements; the output may be the input, so that a chunk is read before it is written.
        unsafe {
            for start in (0..whole).step_by(CHUNK) {
                let (out, x) = (out.cast::<u16>().add(start), x.cast::<u16>().add(start));
                let mut chunk = x.cast::<[u16; CHUNK]>().read_unaligned();
                for x in &mut chunk {
                    *x = (*x & kept) ^ flipped;
                }
                out.cast::<[u16; CHUNK]>().write_unaligned(chunk);
            }
            for i in whole as isize..n as isize {
                let x = x.offset(i * strides[1]).cast::<u16>().read_unaligned();
                out.offset(i * strides[0]).cast::<u16>().write_unaligned((x & kept) ^ flipped);
            }
        }
    }
}

#[inline(always)]
fn strip_args(data: &[*mut u8], strides: &[isize], n: usize, params: [Scalar; MAX_PARAMS], streams: bool) -> StripArgs {
    let mut args = StripArgs {
        data: [std::ptr::null_mut(); MAX_OPERANDS],
        strides: [0; MAX_OPERANDS],
        n,
        rows: 1,
        row_strides: [0; MAX_OPERANDS],
        streams,
        params,
    };
    args.data[..data.len()].copy_from_slice(data);
    args.strides[..strides.len()].copy_from_slice(strides);
    args
}

#[repr(C, align(64))]
struct Buffer(MaybeUninit<[u8; BLOCK * 16]>);

/// Runs a strip block by block through buffers of the strip's dtypes.
///
/// # Safety
/// As [`StripFn`], the operands being of the dtypes that `converts` reads and writes.
unsafe fn converted(
    strip: Strip,
    params: [Scalar; MAX_PARAMS],
    converts: &[Option<CastStrip>],
    sizes: &[isize; MAX_OPERANDS],
    data: &[*mut u8],
    strides: &[isize],
    count: usize,
) {
    let mut buffers: [Buffer; MAX_OPERANDS] = [const { Buffer(MaybeUninit::uninit()) }; MAX_OPERANDS];
    let mut start = 0;
    while start < count {
        let len = BLOCK.min(count - start);
        let mut args = strip_args(data, strides, len, params, false);
        for k in 0..data.len() {
            let at = data[k].wrapping_offset(strides[k] * start as isize);
            args.data[k] = at;
            let Some(convert) = converts[k] else { continue };
            let buffer = buffers[k].0.as_mut_ptr() as *mut u8;
            args.data[k] = buffer;
            args.strides[k] = sizes[k];
            if k > 0 && strides[k] == 0 {
                // One number for the whole strip: convert it once and keep it standing still.
                args.strides[k] = 0;
                // SAFETY: one element of each side.
                unsafe { convert(at, 0, buffer, sizes[k], 1) };
            } else if k > 0 {
                // SAFETY: `len` elements at the operand's stride; the buffer holds `BLOCK` of any dtype.
                unsafe { convert(at, strides[k], buffer, sizes[k], len) };
            }
        }
        // SAFETY: all operands are of the strip's dtypes now.
        unsafe { (strip.run)(args) };
        if let Some(convert) = converts[0] {
            let at = data[0].wrapping_offset(strides[0] * start as isize);
            // SAFETY: the buffer holds `len` results.
            unsafe { convert(buffers[0].0.as_ptr() as *const u8, sizes[0], at, strides[0], len) };
        }
        start += len;
    }
}
