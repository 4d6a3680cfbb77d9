//! The fast paths: ways of a kernel that suit some operands, with a general way behind them that takes any.
//!
//! ```
//! use flambeau_base::fast_paths::{self, FastPath};
//! for path in FastPath::ALL {
//!     println!("{}: {}, else {}", path.name(), path.what(), path.general());
//! }
//! let was = FastPath::ConvWinograd.set(false);
//! FastPath::ConvWinograd.set(was);
//! assert!(fast_paths::switch("-conv.winograd,conv.winograd").is_ok());
//! assert!(fast_paths::switch("conv.winnograd").is_err());
//! ```
//!
//! Each can be switched off, for all threads, so that a bench shows what it buys and a test compares the two ways: at
//! the start by `FLAMBEAU_FAST_PATHS=-conv.winograd,-gemm.rows` or `FLAMBEAU_FAST_PATHS=none` (see [`switch`]), later
//! by [`FastPath::set`]. Kernels ask where they choose a way, once in a call or a piece of it and never in a loop over
//! elements.
//!
//! An entry here is a choice. Its case for the bench and the test is in `benches/fast_paths/cases.rs`, which does not
//! compile without one.

use crate::{Error, Result};
use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The environment variable that is read when a fast path is first asked for.
const VARIABLE: &str = "FLAMBEAU_FAST_PATHS";

/// The states of a path. (A byte for each: a switch is one store, and a test one load.)
const UNKNOWN: u8 = 0;
const ON: u8 = 1;
const OFF: u8 = 2;

static STATES: [AtomicU8; FastPath::ALL.len()] = [const { AtomicU8::new(UNKNOWN) }; FastPath::ALL.len()];

macro_rules! fast_paths {
    ($($path:ident $name:literal: $what:literal, else $general:literal;)*) => {
        /// A fast path: what is done, where it suits, in place of a general way.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum FastPath {
            $(
                #[doc = concat!("`", $name, "`: ", $what, ", else ", $general, ".")]
                $path,
            )*
        }

        impl FastPath {
            /// All of them.
            pub const ALL: &'static [FastPath] = &[$(FastPath::$path),*];

            /// Its name, such as `conv.winograd`.
            pub const fn name(self) -> &'static str {
                match self { $(FastPath::$path => $name),* }
            }

            /// What it does, and for what.
            pub const fn what(self) -> &'static str {
                match self { $(FastPath::$path => $what),* }
            }

            /// The way behind it.
            pub const fn general(self) -> &'static str {
                match self { $(FastPath::$path => $general),* }
            }
        }
    };
}

fast_paths! {
    GemmInPlace "gemm.in_place": "small products read both operands where they are", else "both are packed";
    GemmUnpacked "gemm.unpacked": "products of few columns, and pairs of bfloat16 of a small A, read A where it is", else "A is packed";
    GemmRows "gemm.rows": "products of few rows read B once, as sums of rows, dot products or blocks in place", else "blocks are packed";
    GemmTall "gemm.tall": "a batch with one B is one tall product", else "product by product";
    GemmGroups "gemm.groups": "pairs of bfloat16 or four bytes are multiplied at once where the processor is quick at it",
        else "they are widened";

    ConvWinograd "conv.winograd": "3 x 3 neighbours over many channels take 16 products for each 36 (Winograd)",
        else "the definition's products";
    ConvProducts "conv.products": "convolutions of one tap at every position are products of matrices", else "gathers";
    ConvDepthwise "conv.depthwise": "few channels to a group go without packing", else "products of packed matrices";
    ConvPixels "conv.pixels": "weights of deep sums are packed and pixels of planes are not", else "pixels are packed";
    ConvInPlace "conv.in_place": "images are read where they are, if no padding is read",
        else "tiles are copied with their padding";
    ConvUnpacked "conv.unpacked": "for few channels of results, pixels are read where they are staged",
        else "they are packed into panels";
    ConvPairs "conv.pairs": "two channels of bfloat16 are one of pairs where the processor is quick at them",
        else "they are widened to float32";
    ConvWeightLast "conv.weight_last": "weights that are stored channels last are read so", else "they are copied";

    PointwiseSmall "pointwise.small": "few elements of one shape and dtype go without the iterator",
        else "the iterator";
    PointwiseFewRows "pointwise.few_rows": "few rows of few elements go without the iterator",
        else "the iterator";
    PointwisePairs "pointwise.pairs": "contiguous bfloat16 is converted in registers, two elements a word",
        else "in blocks, through float32 in the first-level cache";
    PointwiseFloat16 "pointwise.float16": "contiguous float16 is converted in registers, with AVX2 or AVX-512",
        else "in blocks, through float32 in the first-level cache";
    PointwiseSign "pointwise.sign": "signs of halves are changed in their bits", else "through float32";
    PointwiseExpand "pointwise.expand": "short rows of broadcast operands are laid out for a block of them",
        else "row by row";
    PointwiseBroadcast "pointwise.broadcast": "operands of another dtype that are broadcast are converted once",
        else "again for every row";
    PointwiseTurned "pointwise.turned": "operands that run along another dim are turned, block by block",
        else "they are read across their rows";
    PointwiseStrided "pointwise.strided": "strided operands are laid out densely, block by block",
        else "element by element where they are";

    CopyStream "copy.stream": "results larger than the caches are stored past them", else "through the caches";
    CopyWide "copy.wide": "a short contiguous row moves as one wide element", else "element by element of two dims";
    CopyBlocks "copy.blocks": "transpositions go by blocks that stay in the cache", else "row by row";
    CopyRows "copy.rows": "many short rows, forwards or backwards, are one call", else "a call for each";
    CopyJoin "copy.join": "what is joined along an inner dim is written row by row", else "tensor by tensor";
    CopyInterleave "copy.interleave": "single elements of few tensors are joined in vectors",
        else "by rows of one element";

    ReduceFewRows "reduce.few_rows": "the result of a few long rows stays in registers",
        else "in accumulators in memory";
    ReduceShort "reduce.short": "sums and products along rows go four short rows at a time, with vectors chosen by hand",
        else "row by row, or turned into columns";
    ReduceStreams "reduce.streams": "what is contiguous is read in four places at a time",
        else "from its beginning to its end";
    ReduceNarrow "reduce.narrow": "extremes and truth of small integers are found in their own bytes",
        else "in 64-bit integers";
    ReducePairs "reduce.pairs": "sums of halves widen in registers", else "blocks are converted to float32";

    NormOverlapped "norm.overlapped": "with AVX-512, a row's results are written while the sums of a later one are taken",
        else "a few rows after the other, in two passes";
    SoftmaxShort "softmax.short": "short rows stay in registers, several to a call", else "row by row, in three passes";
    SoftmaxOverlapped "softmax.overlapped": "with AVX-512, a row's results are written while the next row's terms are computed",
        else "row by row, in three passes";
    SoftmaxColumns "softmax.columns": "along an outer dim, columns are computed side by side",
        else "each is gathered, computed and scattered";
    SoftmaxTall "softmax.tall": "columns that no cache keeps are gone through twice, whole lines at a time",
        else "a few columns at a time are copied";
    ScanLines "scan.lines": "several short lines are scanned together", else "line by line";
    ScanSideBySide "scan.side_by_side": "lines along an outer dim are scanned side by side", else "line by line";

    SortNetwork "sort.network": "many short lines are sorted by a network, a line in each lane", else "line by line";
    SortSplit "sort.split": "lines are split by the leading bits of their keys", else "the standard library sorts them";
    SortCounting "sort.counting": "distinct integers of a narrow range are counted", else "they are sorted";
    SearchInOrder "search.in_order": "boundaries in order are searched without branches, few of them all compared",
        else "the way that PyTorch searches any boundaries";

    IndexRows "index.rows": "rows of 16 to 256 bytes are taken in registers", else "by a copy of bytes for each";
    IndexThreads "index.threads": "threads share the rows that values are combined into, where columns are few",
        else "one thread does all";
    FftHalved "fft.halved": "real numbers of even length are complex ones of half the length, several rows at once",
        else "by the library's real transform, row by row";
    SamplePixels "sample.pixels": "images are sampled with several planes' pixels side by side", else "plane by plane";

    AttentionFlash "attention.flash": "attention goes by tiles, without the matrix of scores",
        else "operator by operator";
    OptimizerWhole "optimizer.whole": "Adam and SGD are one loop over whole tensors",
        else "blocks are copied and updated";
    RecurrentLayer "recurrent.layer": "a recurrent layer is one call over all times", else "operators, time by time";

    LinalgSmall "linalg.small": "LU and QR of up to 16 rows and columns have columns of fixed length",
        else "loops over columns of any length";
    LinalgPlain "linalg.plain": "Cholesky and LU of up to 16 rows are plain loops", else "faer's blocked algorithms";
    LinalgSvd "linalg.svd": "singular values of narrow numbers are roots of a tridiagonal matrix's in double precision",
        else "faer's singular value decomposition";

    MemoryCache "memory.cache": "large blocks are kept and reused", else "they are mapped and unmapped";
    MemoryHugePages "memory.huge_pages": "large blocks are asked for in huge pages", else "in the system's pages";
    MemoryStagger "memory.stagger": "large blocks begin at different places of a page", else "all at its beginning";
}

impl FastPath {
    /// The path of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn by_name(name: &str) -> Result<FastPath> {
        FastPath::ALL.iter().copied().find(|path| path.name() == name).ok_or_else(|| {
            let names: Vec<&str> = FastPath::ALL.iter().map(|path| path.name()).collect();
            Error::value(format!("there is no fast path {name:?}; there are {}", names.join(", ")))
        })
    }

    /// Whether kernels may go this way.
    #[inline(always)]
    pub fn is_on(self) -> bool {
        // Relaxed: the byte is the whole message. A call that meets a switch may go either way at every choice.
        let state = STATES[self as usize].load(Relaxed);
        state == ON || state == UNKNOWN && self.is_on_at_first()
    }

    #[cold]
    #[inline(never)]
    fn is_on_at_first(self) -> bool {
        start();
        STATES[self as usize].load(Relaxed) == ON
    }

    /// Opens or closes this way, for every thread. Gives whether it was open.
    pub fn set(self, on: bool) -> bool {
        start();
        STATES[self as usize].swap(if on { ON } else { OFF }, Relaxed) == ON
    }
}

/// Opens and closes several, in order: `none` and `all` are all of them, `-NAME` closes one and `NAME` opens one. Items
/// are separated by commas.
///
/// # Errors
/// When a name is none of a path: nothing is switched then.
pub fn switch(items: &str) -> Result<()> {
    start();
    apply(items)
}

/// [`switch`], of states that are known.
fn apply(items: &str) -> Result<()> {
    for (path, on) in wanted(items)? {
        STATES[path as usize].store(if on { ON } else { OFF }, Relaxed);
    }
    Ok(())
}

/// Which paths the items open and close, in order.
fn wanted(items: &str) -> Result<Vec<(FastPath, bool)>> {
    let mut wanted = Vec::new();
    for item in items.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        match (item, item.strip_prefix('-')) {
            ("none" | "all", _) => wanted.extend(FastPath::ALL.iter().map(|&path| (path, item == "all"))),
            (_, Some(name)) => wanted.push((FastPath::by_name(name)?, false)),
            (name, None) => wanted.push((FastPath::by_name(name)?, true)),
        }
    }
    Ok(wanted)
}

/// Makes all states known, by the environment.
fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        let given = std::env::var(VARIABLE).unwrap_or_default();
        // Whoever asked for a way has nobody to give an error to.
        let changes = wanted(&given).unwrap_or_else(|error| {
            eprintln!("{VARIABLE}={given}: {error}; all of them are on");
            Vec::new()
        });
        for &path in FastPath::ALL {
            let last = changes.iter().rev().find(|(changed, _)| *changed == path);
            // Once for each: other threads wait here until a state is known, and take it then.
            STATES[path as usize].store(if last.is_none_or(|(_, on)| *on) { ON } else { OFF }, Relaxed);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_differ() {
        for &path in FastPath::ALL {
            assert_eq!(FastPath::by_name(path.name()), Ok(path));
        }
        let error = FastPath::by_name("conv.winnograd").unwrap_err().to_string();
        assert!(error.contains("\"conv.winnograd\"") && error.contains("conv.winograd"), "{error}");
    }

    #[test]
    fn paths_are_switched_in_order_or_not_at_all() {
        let path = FastPath::SortCounting;
        let was = path.set(true);
        assert!(path.is_on());
        assert!(switch("-sort.counting, search.in_order").is_ok());
        assert!(!path.is_on());
        assert!(switch("sort.counting,-sort.counts").is_err());
        assert!(!path.is_on());
        assert!(switch("-sort.counting,sort.counting").is_ok() && path.is_on());
        assert!(path.set(was));
    }
}
