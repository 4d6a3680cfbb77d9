//! Convolutions whose kernel is as large as its stride: every source position is under one tap of one result position.
//!
//! The source is laid out patch by patch, each as the weight's rows are, so that its channels and taps are the channels
//! of one pixel: what is left is a gather of one tap. The transpose is computed into patches, with as many result channels
//! as they have numbers, where the general way would gather for each remainder by the stride.

use super::access::{Access, Stored, load_run, store_run};
use super::geometry::Gather;
use super::planes::Operands;
use super::simd::{Dispatch, Scratch, Shared, Simd, Task};
use super::{ConvShape, pixels};
use crate::buffer::Buffer;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;

/// Numbers of a patch that lie together, at least: of the convolution, and of its transpose.
const LEAST_RUN: [usize; 2] = [8, 4];
/// Taps and numbers of a patch from which on a convolution is faster so: its sources are moved for it.
const LEAST_TAPS: usize = 16;
const LEAST_NUMBERS: usize = 64;
/// With more channels the vectors of a transpose's gathers are full anyway.
const MOST_CHANNELS: usize = 63;

/// Where the numbers of patches lie in a tensor.
struct Layout {
    /// Of a patch's first number, the start of each of its runs.
    runs: Vec<usize>,
    /// Numbers of a run.
    len: usize,
    /// Between the numbers of a run.
    stride: usize,
    /// Between neighbouring patches along each axis.
    steps: [usize; 3],
    /// Between images.
    image: usize,
}

impl Layout {
    fn new(s: &ConvShape) -> Layout {
        let [depth, height, width] = s.kernel;
        let plane: usize = s.input.iter().product();
        let (channel, pixel) = if s.channels_last { (1, s.in_channels) } else { (plane, 1) };
        let axis = [s.input[1] * s.input[2] * pixel, s.input[2] * pixel, pixel];
        let rows = (0..depth * height).map(|i| i / height * axis[0] + i % height * axis[1]);
        let (runs, len, stride) = match (s.weight_last, s.channels_last) {
            (true, true) => (rows.collect(), width * s.in_channels, 1),
            (true, false) => (rows.flat_map(|row| (0..width).map(move |w| row + w)).collect(), s.in_channels, channel),
            (false, _) => {
                let channels = (0..s.in_channels).flat_map(|c| rows.clone().map(move |row| c * channel + row));
                (channels.collect(), width, pixel)
            }
        };
        let steps = std::array::from_fn(|a| s.kernel[a] * axis[a]);
        Layout { runs, len, stride, steps, image: s.in_channels * plane }
    }

    /// Numbers of a patch.
    fn numbers(&self) -> usize {
        self.runs.len() * self.len
    }
}

/// Lays patches out, or puts them back.
struct MoveTask<'a, E> {
    layout: &'a Layout,
    /// The result's sizes: patches along each axis.
    sizes: [usize; 3],
    access: Access<E>,
    tensor: *mut u8,
    patches: *mut E,
    back: bool,
    /// Rows of patches.
    rows: std::ops::Range<usize>,
}

impl<E: super::simd::Number> Task for MoveTask<'_, E> {
    type Element = E;
    const FAST_PATH: bool = true;
    #[inline(always)]
    unsafe fn run<S: Simd<Element = E>>(&self) {
        let (layout, [depth, height, width]) = (self.layout, self.sizes);
        let (len, stride, access) = (layout.len, layout.stride, &self.access);
        for row in self.rows.clone() {
            let place = row / (depth * height) * layout.image
                + row / height % depth * layout.steps[0]
                + row % height * layout.steps[1];
            for w in 0..width {
                // SAFETY: the caller's: the tensor has these rows, and the patches are as many.
                unsafe {
                    let patch = self.patches.add((row * width + w) * layout.numbers());
                    for (i, run) in layout.runs.iter().enumerate() {
                        let place = self.tensor.add((place + w * layout.steps[2] + run) * access.size);
                        if self.back {
                            store_run::<S>(access, patch.add(i * len), place, stride, len);
                        } else {
                            load_run::<S>(access, place, stride, len, patch.add(i * len));
                        }
                    }
                }
            }
        }
    }
}

/// Lays out the patches of a tensor, or puts them `back`.
///
/// # Safety
/// The tensor has the shape's input sizes; there is room for its patches.
unsafe fn lay_out<E: Dispatch>(
    s: &ConvShape,
    layout: &Layout,
    access: Access<E>,
    tensor: *mut u8,
    patches: *mut E,
    back: bool,
) {
    let rows = s.batch * s.output[0] * s.output[1];
    let (tensor, patches) = (Shared(tensor), Shared(patches));
    parallel_for(rows, (1usize << 15).div_ceil(s.output[2] * layout.numbers()), &|rows| {
        let (tensor, patches) = (tensor.get(), patches.get());
        let task = MoveTask { layout, sizes: s.output, access, tensor, patches, back, rows };
        // SAFETY: the caller's; rows of patches are apart.
        unsafe { E::dispatch(&task) };
    });
}

/// Whether the convolution or its transpose is one of patches, and faster so.
pub(crate) fn suits(s: &ConvShape, transpose: bool) -> bool {
    let taps: usize = s.kernel.iter().product();
    let run = match (s.weight_last, s.channels_last) {
        (true, true) => s.kernel[2] * s.in_channels,
        (true, false) => s.in_channels,
        (false, _) => s.kernel[2],
    };
    let covered = (0..3).all(|a| {
        let exact = s.input[a] == s.output[a] * s.kernel[a];
        s.stride[a] == s.kernel[a] && s.padding[a] == 0 && s.dilation[a] == 1 && (exact || !transpose)
    });
    let pays = match transpose {
        true => taps > 1 && s.in_channels <= MOST_CHANNELS,
        false => taps >= LEAST_TAPS && taps * s.in_channels >= LEAST_NUMBERS,
    };
    s.groups == 1 && covered && pays && run >= LEAST_RUN[usize::from(transpose)] && FastPath::ConvPixels.is_on()
}

/// The convolution or its transpose. `false` if other ways are faster or memory is short: nothing is written then.
///
/// # Safety
/// As for [`forward`](super::forward), of operands of these types.
pub(crate) unsafe fn linear<E: Dispatch + Stored<Number = E>>(
    s: &ConvShape,
    transpose: bool,
    operands: Operands<E>,
) -> bool {
    if !suits(s, transpose) || s.output_len() * s.input_len() == 0 {
        return false;
    }
    let layout = Layout::new(s);
    let numbers = layout.numbers();
    let count = s.batch * s.output.iter().product::<usize>();
    let mut memory = Buffer::default();
    let Some(patches) = count.checked_mul(numbers).and_then(|len| memory.try_room(len)) else { return false };
    let (ones, zeros) = ([1; 3], [0; 3]);
    let pixel = ConvShape {
        in_channels: numbers,
        input: s.output,
        kernel: ones,
        stride: ones,
        padding: zeros,
        dilation: ones,
        weight_last: true,
        ..*s
    };
    // SAFETY: the caller's; the memory was sized for the patches, and lives until the end.
    unsafe {
        if !transpose {
            let source = operands.source.cast_mut();
            lay_out(s, &layout, operands.access, source, patches, false);
            let operands = Operands { access: Access::of::<E>(), source: patches.cast(), ..operands };
            pixels::gather(&Gather::forward(&pixel), [true, s.channels_last], operands);
            return true;
        }
        let bias = Scratch::<E>::new(if operands.bias.is_null() { 0 } else { numbers });
        if !operands.bias.is_null() {
            let taps = numbers / s.in_channels;
            for i in 0..numbers {
                let channel = if s.weight_last { i % s.in_channels } else { i / taps };
                *bias.get().add(i) = *operands.bias.add(channel);
            }
        }
        let to_patches = Operands {
            stored: Access::of::<E>(),
            bias: if operands.bias.is_null() { operands.bias } else { bias.get() },
            result: patches.cast(),
            ..operands
        };
        for gather in &Gather::backward(&pixel) {
            pixels::gather(gather, [s.channels_last, true], to_patches);
        }
        lay_out(s, &layout, operands.stored, operands.result, patches, true);
    }
    true
}
