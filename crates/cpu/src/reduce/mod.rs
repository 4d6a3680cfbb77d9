//! Reductions over strided memory: sums, products, extremes, norms, moments.
//!
//! [`reduce`] plans a walk (below, compiled once for all operations) and hands dense blocks to a [`Reducer`], whose
//! inner loops run on few element types: `f32` (halves too), `f64`, and `i64` (every integer and `bool`); extremes of small
//! integers on `u8` and `i32`, and whether bytes are zero on `u8`. Blocks of another dtype, or without unit stride, are
//! first converted or gathered into a buffer that stays in L1.
//!
//! The walk always puts contiguous elements innermost, whether they are kept (then columns are folded side by side) or
//! reduced (then a row's elements are dealt to many accumulators). Work is split by size alone: long reductions into
//! pieces whose partial results are merged in a fixed tree, so results have the same bits on any number of threads.

mod columns;
mod extreme;
#[cfg(target_arch = "x86_64")]
mod few_rows;
mod fold;
mod halves;
mod moments;
mod plan;
mod quick_moments;
#[cfg(target_arch = "x86_64")]
mod quick_places;
#[cfg(target_arch = "x86_64")]
mod quick_rows;
#[cfg(target_arch = "x86_64")]
mod runs;
#[cfg(target_arch = "x86_64")]
mod short;
mod simple;
#[cfg(test)]
mod tests;

use extreme::Extreme;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::{DType, Element};
use fold::{
    ComplexProduct, Count, CountBytes, Max, MaxAbs, Min, MinAbs, NanSum, Product, Sum, SumAbs, SumPowers, SumSquares,
};
use halves::{SumBf16, SumF16};
use moments::{ComplexLogSumExp, LogSumExp, Variance};
use plan::{Load, Plan};
use simple::Simple;
use smallvec::SmallVec;
use std::marker::PhantomData;

/// A dimension that the outputs keep. Strides are in bytes.
#[derive(Clone, Copy, Debug)]
pub struct KeptDim {
    /// The number of elements.
    pub size: usize,
    /// The input's stride.
    pub stride: isize,
    /// The strides of the first and of the second output (anything where there is none).
    pub out_strides: [isize; 2],
}

/// A dimension that is reduced.
#[derive(Clone, Copy, Debug)]
pub struct ReducedDim {
    /// The number of elements.
    pub size: usize,
    /// The input's stride in bytes.
    pub stride: isize,
}

/// Kept and reduced dimensions, each outermost first. The order of the reduced ones defines the index that
/// [`Reduction::ArgMax`] and its relatives write; otherwise no order matters.
#[derive(Clone, Copy, Debug)]
pub struct ReduceShape<'a> {
    /// The outputs' dimensions.
    pub kept: &'a [KeptDim],
    /// The dimensions reduced to one element.
    pub reduced: &'a [ReducedDim],
}

/// What to compute. Any input dtype goes with any output dtype unless said; values are written as
/// `flambeau_base::dtype::cast` converts them.
///
/// Sums and products are accumulated in wrapping `i64` where the output is an integer, else in `f64` (complex: in
/// two), whatever the input is (four terms of a sum at a time perhaps in `f32`, if the output is not `f64`); PyTorch's
/// `dtype=` is the output's dtype. Reductions of nothing give the identity
/// (zero, one, an infinity, NaN for mean and variance, index `i64::MAX`): refusing them is the caller's task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reduction {
    /// The sum. To `bool`: whether any element is true.
    Sum,
    /// The sum over the number of elements.
    Mean,
    /// The sum of the elements that are not NaN.
    NanSum,
    /// The product. To `bool`: whether all elements are true.
    Product,
    /// The largest element, NaN if there is one. Not for complex.
    Max,
    /// The smallest element, NaN if there is one. Not for complex.
    Min,
    /// The largest element to output 0, its first index (`i64`) to output 1; a NaN counts as largest. Not for complex.
    MaxWithIndex,
    /// The smallest element to output 0, its first index (`i64`) to output 1; a NaN counts as smallest. Not for complex.
    MinWithIndex,
    /// The first index of the largest element, as in `MaxWithIndex`.
    ArgMax,
    /// The first index of the smallest element, as in `MinWithIndex`.
    ArgMin,
    /// Whether any element is not zero.
    Any,
    /// Whether no element is zero.
    All,
    /// How many elements are not zero.
    CountNonzero,
    /// The variance to output 0, and the mean to output 1 if there is one. The divisor is the number of elements less
    /// `correction`, at least zero. Of complex elements: the sum of the parts' variances, a real number.
    Variance {
        /// 1 for Bessel's correction.
        correction: f64,
    },
    /// The square root of the variance, and the mean as there.
    StandardDeviation {
        /// 1 for Bessel's correction.
        correction: f64,
    },
    /// The p-norm of the magnitudes: their number without zeros for 0, the extremes for the infinities. Real output.
    Norm(f64),
    /// The logarithm of the sum of exponentials.
    LogSumExp,
}

/// Memory of a dtype.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// The address of the first element.
    pub data: *mut u8,
    /// The elements' type.
    pub dtype: DType,
}

/// A dense block: either its rows are contiguous elements (`col_stride` is 1) or its columns are (`row_stride` is 1).
/// Strides are in elements.
#[derive(Clone, Copy)]
struct Block {
    data: *const u8,
    rows: usize,
    row_stride: isize,
    cols: usize,
    col_stride: isize,
    /// The index of row 0 among the elements reduced, and the distance to the next row's.
    index: i64,
    index_step: i64,
    /// Whether it is of more than caches may hold, so that memory is asked for before it is read.
    far: bool,
}

impl Block {
    /// Runs of contiguous elements without indices.
    fn runs(data: *const u8, rows: usize, cols: usize, col_stride: isize) -> Block {
        Block { data, rows, row_stride: 1, cols, col_stride, index: 0, index_step: 0, far: false }
    }
    /// Whether its columns are runs of contiguous elements.
    #[inline(always)]
    fn is_runs(&self) -> bool {
        self.row_stride == 1 && (self.cols == 1 || self.col_stride != 1)
    }
    /// How many elements that lie right before a column are the block's too, where its columns are runs.
    #[inline(always)]
    fn before(&self, column: usize) -> usize {
        if self.col_stride == self.rows as isize { column * self.rows } else { 0 }
    }
    /// The rows from `start` on, at most `most` of them.
    #[inline(always)]
    fn rows_from(&self, start: usize, most: usize, size: usize) -> Block {
        let data = self.data.wrapping_offset(start as isize * self.row_stride * size as isize);
        let index = self.index + start as i64 * self.index_step;
        Block { data, rows: most.min(self.rows - start), index, ..*self }
    }
}

/// Where values go: an address, a stride in bytes, and a dtype.
struct Output {
    data: *mut u8,
    stride: isize,
    dtype: DType,
}

/// The fewest elements of a row that is folded on its own; shorter ones are folded side by side, as columns, after a
/// transposition. `dense` rows lie end to end.
const fn long_row(dense: bool) -> usize {
    if dense { 40 } else { 64 }
}

/// An operation, on runs of states of its own (`state_size` bytes each, aligned to 8), one per column.
///
/// # Safety
/// For all unsafe methods: states are valid, aligned and (but for `init`) initialised; a block's elements are valid
/// and aligned, of dtype `domain`, at most `tile` columns; outputs are valid for `n` elements.
trait Reducer: Sync {
    /// The dtype of blocks.
    fn domain(&self) -> DType;
    /// Bytes of a state.
    fn state_size(&self) -> usize;
    /// The most columns in a block, which is read `direct`ly or gathered; `far` says that caches may not hold all.
    fn tile(&self, direct: bool, far: bool) -> usize;
    /// [`long_row`], unless this operation has a limit of its own, for four rows or more; `far` says that caches may not hold all.
    fn shortest_run(&self, dense: bool, _far: bool) -> usize {
        long_row(dense)
    }
    /// Whether results are the same wherever a reduction is cut into pieces, and states so large that these should be few.
    fn prefers_few_pieces(&self) -> bool {
        false
    }
    /// Makes states of no elements.
    unsafe fn init(&self, states: *mut u8, n: usize);
    /// Adds a block's elements to its columns' states.
    unsafe fn fold(&self, block: Block, states: *mut u8);
    /// Writes the results of a block that has all elements of its columns, unless that takes [`Reducer::fold`] and the
    /// others. Gives whether it did.
    unsafe fn whole(&self, _block: Block, _outputs: &[Output]) -> bool {
        false
    }
    /// Adds the states `from`, of elements further on.
    unsafe fn merge(&self, into: *mut u8, from: *const u8, n: usize);
    /// Writes the results.
    unsafe fn finish(&self, states: *const u8, n: usize, outputs: &[Output]);
}

/// Reduces `input` to one or two outputs. Allocates only scratch memory.
///
/// # Safety
/// `input` must be valid for reads over all dimensions, each output for writes over the kept ones, and they must not
/// overlap. There must be as many outputs as the operation says, with strides that give every element its own place.
pub unsafe fn reduce(op: Reduction, shape: ReduceShape, input: Operand, outputs: &[Operand]) {
    let count: usize = shape.reduced.iter().map(|d| d.size).product();
    let mut kept: SmallVec<[KeptDim; 6]> = shape.kept.iter().copied().collect();
    let mut reduced: SmallVec<[ReducedDim; 6]> = shape.reduced.iter().copied().collect();
    let mut outs: SmallVec<[Operand; 2]> = outputs.iter().copied().collect();
    let mut source = input.dtype;
    let mut op = op;

    if source == DType::Bool && op == Reduction::Sum && outs[0].dtype.is_integral(false) {
        op = Reduction::CountNonzero;
    }
    // The extremes of booleans say whether there is one, and whether all are.
    if source == DType::Bool && outs[0].dtype == DType::Bool {
        op = match op {
            Reduction::Max => Reduction::Any,
            Reduction::Min => Reduction::All,
            op => op,
        };
    }
    // Whether a byte is zero does not depend on what it stands for, and what says it is the same byte as a boolean.
    if source.size() == 1 && op.is_truth(outs[0].dtype) {
        source = DType::U8;
        if matches!(op, Reduction::Any | Reduction::All) && outs[0].dtype == DType::Bool {
            outs[0].dtype = DType::U8;
        }
    }
    if source.is_complex() {
        // Most complex reductions are real ones of the parts, which lie side by side.
        let real = source.to_real();
        let part = real.size() as isize;
        match op {
            Reduction::Sum | Reduction::Mean | Reduction::NanSum if outs[0].dtype.is_complex() => {
                let out = outs[0].dtype.to_real();
                kept.push(KeptDim { size: 2, stride: part, out_strides: [out.size() as isize, 0] });
                (source, outs[0].dtype) = (real, out);
            }
            // A real sum of complex elements drops the imaginary parts, as the cast does.
            Reduction::Sum | Reduction::Mean | Reduction::NanSum if outs[0].dtype != DType::Bool => source = real,
            Reduction::Product if !outs[0].dtype.is_complex() && outs[0].dtype != DType::Bool => source = real,
            Reduction::Norm(2.0) => {
                reduced.push(ReducedDim { size: 2, stride: part });
                source = real;
            }
            Reduction::Variance { correction } => {
                // SAFETY: the caller's contract, unchanged.
                return unsafe { complex_variance(correction, false, shape, input, outputs) };
            }
            Reduction::StandardDeviation { correction } => {
                // SAFETY: the caller's contract, unchanged.
                return unsafe { complex_variance(correction, true, shape, input, outputs) };
            }
            _ => {}
        }
    }
    let (reducer, load) = reducer(op, source, outs[0].dtype, count);
    let plan = Plan::new(&*reducer, load, op.needs_index(), &kept, &reduced, (input.data, source), &outs);
    // SAFETY: the caller's contract.
    unsafe { plan.run() }
}

impl Reduction {
    /// Whether the result depends on nothing but which elements are zero.
    fn is_truth(self, out: DType) -> bool {
        use Reduction::{All, Any, CountNonzero, NanSum, Product, Sum};
        match self {
            Any | All | CountNonzero => true,
            Sum | NanSum | Product => out == DType::Bool,
            _ => false,
        }
    }
    fn needs_index(self) -> bool {
        use Reduction::{ArgMax, ArgMin, MaxWithIndex, MinWithIndex};
        matches!(self, ArgMax | ArgMin | MaxWithIndex | MinWithIndex)
    }
}

/// `$body` with `$T` the element type of blocks of `$dtype`.
macro_rules! domain {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F64 => {
                type $T = f64;
                $body
            }
            _ => {
                type $T = i64;
                $body
            }
        }
    };
}

/// As `domain!`, for floats only.
macro_rules! float_domain {
    ($dtype:expr, $T:ident => $body:expr) => {
        if $dtype == DType::F32 {
            type $T = f32;
            $body
        } else {
            type $T = f64;
            $body
        }
    };
}

fn identity<T>(x: T) -> T {
    x
}

/// The operation's kernels, and how elements get to its blocks. Complex sources of most sums are real by now.
fn reducer(op: Reduction, source: DType, out: DType, count: usize) -> (Box<dyn Reducer>, Load) {
    let integral = source.is_integral(true);
    // The dtype of blocks that hold the source's values exactly.
    let natural = if integral {
        DType::I64
    } else if source == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    // The same, where arithmetic is done on floats.
    let float = if natural == DType::F32 { DType::F32 } else { DType::F64 };
    // The same for sums, whose results may be asked for with more digits than the terms have.
    let summed = if out == DType::F64 { DType::F64 } else { float };
    // Unsigned numbers are loaded with another sign, which is undone in the end.
    let (order_load, sign) = if source == DType::U64 { (Load::Unsigned, i64::MIN) } else { (Load::Cast, 0) };
    let restore = move |x: i64| x ^ sign;
    let (truth, truth_load) = if source.is_complex() { (DType::I64, Load::Truth) } else { (natural, Load::Cast) };
    // By how many elements are not zero.
    macro_rules! counted {
        ($finish:expr) => {
            (domain!(truth, T => Box::new(Simple::new(Count::<T>::NEW, $finish))), truth_load)
        };
    }
    // Whether extremes are found in as many bits as elements have, or in 32.
    let narrow = FastPath::ReduceNarrow.is_on();
    let in_words = narrow && matches!(source, DType::U16 | DType::I32);
    let is = |dtype: DType| narrow && source == dtype;
    let in_bytes = is(DType::U8);
    let n = count as f64;
    match op {
        Reduction::Sum | Reduction::NanSum if out == DType::Bool => reducer(Reduction::Any, source, out, count),
        Reduction::Product if out == DType::Bool => reducer(Reduction::All, source, out, count),
        Reduction::Sum if out.is_integral(false) => {
            (Box::new(Simple::new(Sum::<i64>::NEW, identity::<i64>)), Load::Cast)
        }
        Reduction::NanSum if integral && out.is_integral(false) => reducer(Reduction::Sum, source, out, count),
        Reduction::NanSum => {
            (float_domain!(summed, T => Box::new(Simple::new(NanSum::<T>::NEW, identity::<f64>))), Load::Cast)
        }
        // (Sums are means of one element: one code for both.)
        Reduction::Sum | Reduction::Mean => {
            let n = if op == Reduction::Sum { 1.0 } else { n };
            // A product is four times as fast as a quotient, and rounds to the same number of fewer digits, but near ties.
            let (exact, share) = (n != 1.0 && matches!(out, DType::F64 | DType::Complex128), 1.0 / n);
            (sum(source, summed, move |s| if exact { s / n } else { s * share }), Load::Cast)
        }
        Reduction::Product if source.is_complex() => (Box::new(Simple::new(ComplexProduct, identity)), Load::Cast),
        Reduction::Product if out.is_integral(false) => {
            (Box::new(Simple::new(Product::<i64>::NEW, identity::<i64>)), Load::Cast)
        }
        Reduction::Product => {
            (float_domain!(float, T => Box::new(Simple::new(Product::<T>::NEW, identity::<f64>))), Load::Cast)
        }
        Reduction::Max if in_bytes => (Box::new(Simple::new(Max::<u8>::NEW, identity::<u8>)), Load::Cast),
        Reduction::Min if in_bytes => (Box::new(Simple::new(Min::<u8>::NEW, identity::<u8>)), Load::Cast),
        Reduction::Max if is(DType::I8) => (Box::new(Simple::new(Max::<i8>::NEW, identity::<i8>)), Load::Cast),
        Reduction::Min if is(DType::I8) => (Box::new(Simple::new(Min::<i8>::NEW, identity::<i8>)), Load::Cast),
        Reduction::Max if is(DType::I16) => (Box::new(Simple::new(Max::<i16>::NEW, identity::<i16>)), Load::Cast),
        Reduction::Min if is(DType::I16) => (Box::new(Simple::new(Min::<i16>::NEW, identity::<i16>)), Load::Cast),
        Reduction::Max if in_words => (Box::new(Simple::new(Max::<i32>::NEW, identity::<i32>)), Load::Cast),
        Reduction::Min if in_words => (Box::new(Simple::new(Min::<i32>::NEW, identity::<i32>)), Load::Cast),
        Reduction::Max if natural == DType::I64 => (Box::new(Simple::new(Max::<i64>::NEW, restore)), order_load),
        Reduction::Min if natural == DType::I64 => (Box::new(Simple::new(Min::<i64>::NEW, restore)), order_load),
        Reduction::Max => {
            (float_domain!(natural, T => Box::new(Simple::new(Max::<T>::NEW, identity::<T>))), Load::Cast)
        }
        Reduction::Min => {
            (float_domain!(natural, T => Box::new(Simple::new(Min::<T>::NEW, identity::<T>))), Load::Cast)
        }
        Reduction::MaxWithIndex | Reduction::ArgMax if natural == DType::I64 => {
            (Box::new(Extreme::new(Max::<i64>::NEW, restore)), order_load)
        }
        Reduction::MinWithIndex | Reduction::ArgMin if natural == DType::I64 => {
            (Box::new(Extreme::new(Min::<i64>::NEW, restore)), order_load)
        }
        Reduction::MaxWithIndex | Reduction::ArgMax => {
            (float_domain!(natural, T => Box::new(Extreme::new(Max::<T>::NEW, identity::<T>))), Load::Cast)
        }
        Reduction::MinWithIndex | Reduction::ArgMin => {
            (float_domain!(natural, T => Box::new(Extreme::new(Min::<T>::NEW, identity::<T>))), Load::Cast)
        }
        // A byte is not zero where the largest is not, or the smallest.
        Reduction::Any if in_bytes => (Box::new(Simple::new(Max::<u8>::NEW, |x: u8| u8::from(x != 0))), Load::Cast),
        Reduction::All if in_bytes => (Box::new(Simple::new(Min::<u8>::NEW, |x: u8| u8::from(x != 0))), Load::Cast),
        Reduction::Any => counted!(|c: i64| (c != 0) as i64),
        Reduction::All => {
            let all = count as i64;
            counted!(move |c: i64| (c == all) as i64)
        }
        Reduction::CountNonzero if in_bytes => (Box::new(Simple::new(CountBytes, identity::<i64>)), Load::Cast),
        Reduction::CountNonzero => counted!(identity::<i64>),
        Reduction::Variance { correction } => {
            (float_domain!(float, T => Box::new(Variance::<T>::new(correction, false))), Load::Cast)
        }
        Reduction::StandardDeviation { correction } => {
            (float_domain!(float, T => Box::new(Variance::<T>::new(correction, true))), Load::Cast)
        }
        Reduction::Norm(p) => norm(p, source, if p == 1.0 || p == 2.0 { summed } else { float }),
        Reduction::LogSumExp if source.is_complex() => (Box::new(ComplexLogSumExp), Load::Cast),
        Reduction::LogSumExp => (float_domain!(float, T => Box::new(LogSumExp::<T>::new())), Load::Cast),
    }
}

fn sum(source: DType, float: DType, finish: impl Fn(f64) -> f64 + Sync + 'static) -> Box<dyn Reducer> {
    match source {
        DType::BF16 if float == DType::F32 && FastPath::ReducePairs.is_on() => Box::new(Simple::new(SumBf16, finish)),
        DType::F16 if float == DType::F32 && FastPath::ReducePairs.is_on() => Box::new(Simple::new(SumF16, finish)),
        _ => float_domain!(float, T => Box::new(Simple::new(Sum::<T>::NEW, finish))),
    }
}

fn norm(p: f64, source: DType, float: DType) -> (Box<dyn Reducer>, Load) {
    let (float, load) = if source.is_complex() { (DType::F64, Load::Magnitude) } else { (float, Load::Cast) };
    let reducer: Box<dyn Reducer> = if p == 0.0 {
        float_domain!(float, T => Box::new(Simple::new(Count::<T>::NEW, |c: i64| c as f64)))
    } else if p == 1.0 {
        float_domain!(float, T => Box::new(Simple::new(SumAbs::<T>::NEW, identity::<f64>)))
    } else if p == 2.0 {
        float_domain!(float, T => Box::new(Simple::new(SumSquares::<T>::NEW, f64::sqrt)))
    } else if p == f64::INFINITY {
        float_domain!(float, T => Box::new(Simple::new(MaxAbs::<T>::NEW, identity::<T>)))
    } else if p == f64::NEG_INFINITY {
        float_domain!(float, T => Box::new(Simple::new(MinAbs::<T>::NEW, identity::<T>)))
    } else {
        float_domain!(float, T => {
            Box::new(Simple::new(SumPowers::<T> { power: p, of: PhantomData }, move |s: f64| s.powf(1.0 / p)))
        })
    };
    (reducer, load)
}

/// The variance of complex elements: the parts' variances to scratch memory, then their sums.
///
/// # Safety
/// As [`reduce`].
unsafe fn complex_variance(correction: f64, root: bool, shape: ReduceShape, input: Operand, outputs: &[Operand]) {
    let n: usize = shape.kept.iter().map(|d| d.size).product();
    let real = input.dtype.to_real();
    let mut parts = vec![0.0f64; 2 * n];
    let mut kept: SmallVec<[KeptDim; 6]> = shape.kept.iter().copied().collect();
    let mut stride = 16;
    for d in kept.iter_mut().rev() {
        d.out_strides[0] = stride;
        stride *= d.size as isize;
    }
    let mean_part = outputs.get(1).map_or(0, |o| o.dtype.to_real().size() as isize);
    kept.push(KeptDim { size: 2, stride: real.size() as isize, out_strides: [8, mean_part] });
    let mut outs: SmallVec<[Operand; 2]> =
        SmallVec::from_slice(&[Operand { data: parts.as_mut_ptr().cast(), dtype: DType::F64 }]);
    outs.extend(outputs.get(1).map(|o| Operand { data: o.data, dtype: o.dtype.to_real() }));
    let parts_shape = ReduceShape { kept: &kept, reduced: shape.reduced };
    let parts_input = Operand { data: input.data, dtype: real };
    // SAFETY: the parts of the caller's elements; the scratch memory holds two values per output.
    unsafe { reduce(Reduction::Variance { correction }, parts_shape, parts_input, &outs) };
    for i in 0..n {
        let sum = parts[2 * i] + parts[2 * i + 1];
        parts[i] = if root { sum.sqrt() } else { sum };
    }
    let sizes: SmallVec<[i64; 6]> = shape.kept.iter().map(|d| d.size as i64).collect();
    let to: SmallVec<[isize; 6]> = shape.kept.iter().map(|d| d.out_strides[0]).collect();
    let from: SmallVec<[isize; 6]> = kept[..shape.kept.len()].iter().map(|d| d.out_strides[0] / 2).collect();
    // SAFETY: `n` contiguous values, and the caller's output.
    unsafe {
        crate::copy::copy_strided(
            &sizes,
            (outputs[0].data, &to, outputs[0].dtype),
            (parts.as_ptr().cast(), &from, f64::DTYPE),
        );
    }
}
