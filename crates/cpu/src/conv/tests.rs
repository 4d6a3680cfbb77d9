use super::*;
use crate::math::Level;
use flambeau_base::{Element, bf16, f16};

/// A small generator of numbers, exact in every dtype (xorshift, Marsaglia 2003).
struct Numbers(u64);
impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn small<T: Element>(&mut self, len: usize) -> Vec<T> {
        let mut part = || self.below(7) as f64 - 3.0;
        (0..len).map(|_| T::from_c128(Complex::new(part(), part()))).collect()
    }
}

fn index(shape: [usize; 3], channels: usize, last: bool, n: usize, c: usize, p: [usize; 3]) -> usize {
    let position = (p[0] * shape[1] + p[1]) * shape[2] + p[2];
    let positions: usize = shape.iter().product();
    if last { (n * positions + position) * channels + c } else { (n * channels + c) * positions + position }
}

/// Calls `f(input index, weight index, output index, output channel)` for every product of the definition.
fn products(s: &ConvShape, mut f: impl FnMut(usize, usize, usize)) {
    let (inputs, outputs) = (s.in_channels / s.groups, s.out_channels / s.groups);
    let each = |sizes: [usize; 3]| {
        (0..sizes[0]).flat_map(move |d| (0..sizes[1]).flat_map(move |h| (0..sizes[2]).map(move |w| [d, h, w])))
    };
    for n in 0..s.batch {
        for o in 0..s.out_channels {
            for p in each(s.output) {
                let y = index(s.output, s.out_channels, s.channels_last, n, o, p);
                for c in 0..inputs {
                    for k in each(s.kernel) {
                        let at: [isize; 3] = std::array::from_fn(|a| {
                            (p[a] * s.stride[a] + k[a] * s.dilation[a]) as isize - s.padding[a] as isize
                        });
                        if (0..3).any(|a| at[a] < 0 || at[a] >= s.input[a] as isize) {
                            continue;
                        }
                        let at = at.map(|x| x as usize);
                        let x = index(s.input, s.in_channels, s.channels_last, n, o / outputs * inputs + c, at);
                        let w = (((o * inputs + c) * s.kernel[0] + k[0]) * s.kernel[1] + k[1]) * s.kernel[2] + k[2];
                        f(x, w, y);
                    }
                }
            }
        }
    }
}

fn bytes<T>(x: &[T]) -> *const u8 {
    x.as_ptr().cast()
}
fn bytes_mut<T>(x: &mut [T]) -> *mut u8 {
    x.as_mut_ptr().cast()
}

/// Checks all six functions against the definition, on integers that every dtype holds exactly.
fn check_all<T: Element>(s: &ConvShape, seed: u64) {
    let mut numbers = Numbers(seed.wrapping_mul(2654435761) | 1);
    let x: Vec<T> = numbers.small(s.input_len());
    let w: Vec<T> = numbers.small(s.weight_len());
    let b: Vec<T> = numbers.small(s.out_channels);
    let tb: Vec<T> = numbers.small(s.in_channels);
    let y: Vec<T> = numbers.small(s.output_len());
    let c = |x: &[T]| x.iter().map(|x| x.to_c128()).collect::<Vec<_>>();
    let (xc, wc, yc) = (c(&x), c(&w), c(&y));
    let zero = Complex::new(0.0, 0.0);
    let mut forward_ = vec![zero; y.len()];
    let mut back = vec![zero; x.len()];
    let mut outer_ = vec![zero; w.len()];
    let mut transposed_ = vec![zero; x.len()];
    let mut transposed_back = vec![zero; y.len()];
    let mut transposed_outer = vec![zero; w.len()];
    let positions: usize = s.output.iter().product();
    let in_positions: usize = s.input.iter().product();
    let channel = |i: usize, positions: usize, channels: usize| {
        if s.channels_last { i % channels } else { i / positions % channels }
    };
    for (i, f) in forward_.iter_mut().enumerate() {
        *f = b[channel(i, positions, s.out_channels)].to_c128();
    }
    for (i, f) in transposed_.iter_mut().enumerate() {
        *f = tb[channel(i, in_positions, s.in_channels)].to_c128();
    }
    products(s, |xi, wi, yi| {
        forward_[yi] += xc[xi] * wc[wi];
        back[xi] += yc[yi] * wc[wi].conj();
        outer_[wi] += xc[xi].conj() * yc[yi];
        transposed_[xi] += yc[yi] * wc[wi];
        transposed_back[yi] += xc[xi] * wc[wi].conj();
        transposed_outer[wi] += xc[xi] * yc[yi].conj();
    });
    let expect = |name: &str, got: &[T], want: &[Complex<f64>]| {
        for (i, (g, e)) in got.iter().zip(want).enumerate() {
            let e = T::from_c128(*e);
            assert!(*g == e, "{name} of {} at {i}: {g:?}, not {e:?}; level {:?} {s:?}", T::DTYPE, simd::level());
        }
    };
    let poison = T::from_i64(77);
    // The weight's channels first, and last.
    let (inputs, taps) = (s.in_channels / s.groups, s.kernel.iter().product::<usize>());
    let turned =
        (0..w.len()).map(|i| w[(i / (taps * inputs) * inputs + i % inputs) * taps + i / inputs % taps]).collect();
    let weights = [(*s, w.clone()), (s.weight_last(), turned)];
    for (s, w) in weights.iter().take(if T::DTYPE.is_complex() { 1 } else { 2 }) {
        // SAFETY: the arrays have the shape's sizes.
        unsafe {
            let mut out = vec![poison; y.len()];
            forward(T::DTYPE, s, bytes(&x), bytes(w), Some(bytes(&b)), bytes_mut(&mut out));
            expect("forward", &out, &forward_);
            transposed_backward_input(T::DTYPE, s, bytes(&x), bytes(w), bytes_mut(&mut out));
            expect("transposed_backward_input", &out, &transposed_back);
            let mut out = vec![poison; x.len()];
            backward_input(T::DTYPE, s, bytes(&y), bytes(w), bytes_mut(&mut out));
            expect("backward_input", &out, &back);
            transposed(T::DTYPE, s, bytes(&y), bytes(w), Some(bytes(&tb)), bytes_mut(&mut out));
            expect("transposed", &out, &transposed_);
        }
    }
    // SAFETY: the arrays have the shape's sizes.
    unsafe {
        let mut out = vec![poison; w.len()];
        backward_weight(T::DTYPE, s, bytes(&x), bytes(&y), bytes_mut(&mut out));
        expect("backward_weight", &out, &outer_);
        transposed_backward_weight(T::DTYPE, s, bytes(&y), bytes(&x), bytes_mut(&mut out));
        expect("transposed_backward_weight", &out, &transposed_outer);
    }
}

/// Tests run one at a time: the widest level is of the whole process.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

fn at_every_level(f: impl Fn()) {
    for level in Level::ALL {
        simd::WIDEST.store(level as u8, std::sync::atomic::Ordering::Relaxed);
        f();
    }
}

fn random_shape(numbers: &mut Numbers) -> Option<ConvShape> {
    let dims = 1 + numbers.below(3);
    let mut axis = |low: usize, high: usize, other: usize| -> [usize; 3] {
        std::array::from_fn(|a| if a < 3 - dims { other } else { low + numbers.below(high - low + 1) })
    };
    let input = axis(1, [40, 20, 9][dims - 1], 1);
    let kernel = axis(1, 5, 1);
    let stride = axis(1, 4, 1);
    let padding = axis(0, 4, 0);
    let dilation = axis(1, 3, 1);
    let groups = [1, 1, 2, 3][numbers.below(4)];
    let (inputs, outputs) = (1 + numbers.below(6), 1 + numbers.below(20));
    let (inputs, outputs) = if numbers.below(4) == 0 { (1, 1) } else { (inputs, outputs) };
    let groups = if inputs == 1 && outputs == 1 { 1 + numbers.below(20) } else { groups };
    let batch = numbers.below(4);
    let shape =
        ConvShape::new(batch, inputs * groups, outputs * groups, groups, input, kernel, stride, padding, dilation)
            .ok()?;
    Some(if numbers.below(2) == 0 { shape.channels_last() } else { shape })
}

#[test]
fn random_shapes_equal_the_definition() {
    let _alone = alone();
    at_every_level(|| {
        let mut numbers = Numbers(12345);
        let mut done = 0;
        while done < 150 {
            if let Some(shape) = random_shape(&mut numbers) {
                check_all::<f32>(&shape, done);
                done += 1;
            }
        }
    });
}

#[test]
fn every_dtype_equals_the_definition() {
    let _alone = alone();
    let mut numbers = Numbers(999);
    let mut done = 0;
    while done < 25 {
        if let Some(shape) = random_shape(&mut numbers) {
            check_all::<f64>(&shape, done);
            check_all::<Complex<f32>>(&shape, done);
            check_all::<Complex<f64>>(&shape, done);
            check_all::<i64>(&shape, done);
            check_all::<i32>(&shape, done);
            if done < 8 {
                check_all::<bf16>(&shape, done);
                check_all::<f16>(&shape, done);
                check_all::<i16>(&shape, done);
            }
            done += 1;
        }
    }
    at_every_level(|| {
        let shape = ConvShape::new(2, 6, 12, 2, [1, 9, 11], [1, 3, 3], [1, 2, 1], [0, 1, 2], [1, 1, 2]).unwrap();
        check_all::<f64>(&shape, 1);
        check_all::<f16>(&shape, 2);
        check_all::<f64>(&shape.channels_last(), 3);
        check_all::<bf16>(&shape.channels_last(), 4);
    });
}

/// Shapes that reach every branch of the tilings: many channels (several blocks of terms and of rows), wide rows,
/// large planes, huge kernels, wide padding.
#[test]
fn large_shapes_equal_the_definition() {
    let _alone = alone();
    let shapes = [
        ConvShape::new(3, 70, 40, 1, [1, 7, 7], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]),
        ConvShape::new(1, 3, 9, 1, [1, 1, 4000], [1, 1, 5], [1, 1, 2], [0, 0, 2], [1; 3]),
        ConvShape::new(1, 2, 3, 1, [1, 60, 61], [1, 7, 7], [1, 2, 2], [0, 3, 3], [1; 3]),
        ConvShape::new(1, 2, 2, 1, [1, 40, 40], [1, 33, 33], [1; 3], [0, 2, 2], [1; 3]),
        ConvShape::new(2, 5, 4, 1, [12, 12, 12], [3, 3, 3], [1; 3], [1; 3], [1; 3]),
        ConvShape::new(1, 4, 4, 4, [1, 90, 70], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]),
        ConvShape::new(1, 19, 19, 19, [1, 30, 33], [1, 3, 3], [1, 2, 2], [0, 1, 1], [1; 3]),
        ConvShape::new(1, 40, 40, 1, [1, 30, 30], [1, 1, 1], [1; 3], [0; 3], [1; 3]),
        ConvShape::new(1, 40, 300, 1, [1, 6, 6], [1, 1, 1], [1, 2, 2], [0; 3], [1; 3]),
        ConvShape::new(1, 1, 1, 1, [1, 1, 1], [1, 5, 5], [1, 3, 3], [0, 9, 9], [1; 3]),
        ConvShape::new(2, 300, 1, 1, [1, 9, 9], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]),
        ConvShape::new(1, 4, 4, 1, [1, 5, 5], [1, 1, 1], [1, 7, 7], [0; 3], [1; 3]),
    ];
    for (i, shape) in shapes.into_iter().enumerate() {
        let shape = shape.unwrap();
        check_all::<f32>(&shape, i as u64);
        check_all::<f32>(&shape.channels_last(), i as u64);
    }
}

/// One tap at every position: deep and flat sums, few and many channels, images for every thread, one and several dims.
#[test]
fn one_tap_equals_the_definition() {
    let _alone = alone();
    let shape =
        |batch, from, to, input| ConvShape::new(batch, from, to, 1, input, [1; 3], [1; 3], [0; 3], [1; 3]).unwrap();
    let shapes = [
        shape(1, 5, 20, [1, 1, 9]),
        shape(2, 300, 33, [1, 12, 11]),
        shape(1, 270, 17, [3, 2, 5]),
        shape(9, 17, 18, [1, 13, 10]),
        shape(3, 2, 40, [1, 1, 3]),
    ];
    for (i, shape) in shapes.iter().enumerate() {
        for shape in [*shape, shape.channels_last()] {
            check_all::<f32>(&shape, i as u64);
            check_all::<f64>(&shape, i as u64);
            check_all::<f16>(&shape, i as u64);
            check_all::<bf16>(&shape, i as u64);
            check_all::<i32>(&shape, i as u64);
            check_all::<Complex<f32>>(&shape, i as u64);
        }
    }
}

/// Panels that are read where they are staged: rows that are not whole vectors, results that are spaced, one tap, several
/// images in a tile; with more taps than a block has terms they are packed.
#[test]
fn unpacked_panels_equal_the_definition() {
    let _alone = alone();
    at_every_level(|| {
        let shape = |batch, [from, to]: [usize; 2], input: [usize; 2], taps, step, padding| {
            let plane = |first, [y, x]: [usize; 2]| [first, y, x];
            let (kernel, stride) = (plane(1, [taps; 2]), plane(1, [step; 2]));
            ConvShape::new(batch, from, to, 1, plane(1, input), kernel, stride, plane(0, [padding; 2]), [1; 3]).unwrap()
        };
        let shapes = [
            shape(2, [5, 3], [34, 45], 3, 1, 1),
            shape(4, [3, 7], [46, 70], 5, 2, 2),
            shape(4, [9, 3], [64, 64], 1, 1, 0),
            shape(64, [6, 5], [14, 14], 5, 1, 0),
            shape(8, [2, 2], [40, 72], 33, 1, 0),
        ];
        for (i, shape) in shapes.into_iter().enumerate() {
            check_all::<f32>(&shape, i as u64);
        }
    });
}

/// Kernels as large as their stride: patches in planes and pixels, in one to three dims, with a rest that no tap reads.
#[test]
fn patches_equal_the_definition() {
    let _alone = alone();
    let shape = |batch, [from, to]: [usize; 2], input: [usize; 3], kernel: [usize; 3]| {
        ConvShape::new(batch, from, to, 1, input, kernel, kernel, [0; 3], [1; 3]).unwrap()
    };
    let shapes = [
        shape(2, [3, 21], [1, 24, 32], [1, 8, 8]),
        shape(3, [5, 33], [1, 1, 51], [1, 1, 17]),
        shape(1, [2, 9], [4, 12, 16], [2, 4, 8]),
        shape(2, [7, 40], [1, 8, 12], [1, 4, 4]),
        shape(2, [4, 10], [1, 20, 33], [1, 5, 8]),
    ];
    at_every_level(|| {
        for (i, shape) in shapes.iter().enumerate() {
            for shape in [*shape, shape.channels_last()] {
                check_all::<f32>(&shape, i as u64);
            }
        }
    });
    for (i, shape) in shapes.iter().enumerate() {
        for shape in [*shape, shape.channels_last()] {
            check_all::<f64>(&shape, i as u64);
            check_all::<bf16>(&shape, i as u64);
            check_all::<f16>(&shape, i as u64);
            check_all::<u8>(&ConvShape { batch: 1, ..shape }, i as u64);
            check_all::<i64>(&shape, i as u64);
            check_all::<Complex<f32>>(&shape, i as u64);
        }
    }
}

/// One channel to a group, with columns of taps: blocks of rows that overlap, at a distance, spaced by a stride, of volumes
/// and several source channels, and planes too small for them; and weights of so many taps.
#[test]
fn depthwise_columns_equal_the_definition() {
    let _alone = alone();
    let shape = |channels: [usize; 3], input: [usize; 3], kernel, stride: [usize; 3], padding, dilation: [usize; 3]| {
        let [from, to, groups] = channels;
        ConvShape::new(2, from, to, groups, input, kernel, stride, padding, dilation).unwrap()
    };
    let shapes = [
        shape([9, 9, 9], [1, 11, 37], [1, 5, 7], [1; 3], [0, 2, 3], [1; 3]),
        shape([8, 8, 8], [1, 30, 40], [1, 4, 3], [1, 2, 2], [0; 3], [1, 2, 1]),
        shape([3, 3, 3], [3, 9, 70], [2, 6, 1], [1, 1, 1], [1, 3, 0], [1; 3]),
        shape([6, 3, 3], [1, 13, 33], [1, 7, 7], [1; 3], [0, 3, 3], [1; 3]),
        shape([17, 17, 17], [1, 40, 50], [1, 8, 2], [1, 2, 1], [0, 1, 1], [1; 3]),
        shape([5, 5, 5], [1, 6, 35], [1, 5, 5], [1; 3], [0, 1, 2], [1; 3]),
    ];
    at_every_level(|| {
        for (i, shape) in shapes.iter().enumerate() {
            check_all::<f32>(shape, i as u64);
            check_all::<f32>(&shape.channels_last(), i as u64);
        }
    });
    for (i, shape) in shapes.iter().enumerate() {
        check_all::<f64>(shape, i as u64);
        check_all::<bf16>(shape, i as u64);
        check_all::<i32>(shape, i as u64);
    }
}

/// Groups that share a vector, channels last, and narrow planes: fewer source channels than results, vectors that are not
/// whole, spaced results, taps that some or all positions have outside the source, taps beside one another, tiles of several rows.
#[test]
fn narrow_groups_equal_the_definition() {
    let _alone = alone();
    let shape = |channels: [usize; 3], input: [usize; 3], kernel, stride: [usize; 3], padding, dilation: [usize; 3]| {
        let [from, to, groups] = channels;
        ConvShape::new(2, from, to, groups, input, kernel, stride, padding, dilation).unwrap()
    };
    let shapes = [
        shape([40, 40, 10], [1, 7, 23], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]),
        shape([72, 72, 9], [1, 6, 9], [1, 3, 5], [1, 2, 2], [0, 1, 2], [1; 3]),
        shape([18, 36, 18], [3, 5, 6], [2, 3, 1], [1; 3], [1, 2, 0], [1, 2, 1]),
        shape([22, 88, 11], [1, 9, 13], [1, 2, 3], [1, 1, 3], [0, 0, 4], [1, 1, 2]),
        shape([70, 70, 70], [2, 7, 7], [1, 7, 7], [1; 3], [0, 3, 3], [1; 3]),
        shape([33, 33, 33], [1, 2, 5], [1, 3, 3], [1, 1, 2], [0, 3, 9], [1; 3]),
        shape([130, 130, 130], [1, 14, 14], [1, 5, 5], [1; 3], [0, 2, 2], [1; 3]),
        shape([30, 30, 30], [1, 8, 20], [1, 4, 3], [1; 3], [0, 2, 1], [1; 3]),
        shape([20, 20, 20], [1, 5, 20], [1, 3, 7], [1; 3], [0, 1, 3], [1; 3]),
        shape([37, 37, 37], [1, 6, 19], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]),
        shape([18, 18, 18], [1, 6, 40], [1, 2, 3], [1; 3], [0, 1, 1], [1, 1, 2]),
    ];
    at_every_level(|| {
        for (i, shape) in shapes.iter().enumerate() {
            for shape in [*shape, shape.channels_last()] {
                check_all::<f32>(&shape, i as u64);
                check_all::<bf16>(&shape, i as u64);
                check_all::<f64>(&shape, i as u64);
            }
        }
    });
}

/// Planes that are read in place, with strides and padding, of one image and several; a tap far outside is not.
#[test]
fn planes_in_place_equal_the_definition() {
    let _alone = alone();
    at_every_level(|| {
        let shape = |batch, input: [usize; 3], kernel: [usize; 3], stride: [usize; 3], padding: [usize; 3]| {
            ConvShape::new(batch, 24, 32, 1, input, kernel, stride, padding, [1; 3]).unwrap()
        };
        let shapes = [
            shape(4, [1, 28, 29], [1, 3, 3], [1, 2, 2], [0, 1, 1]),
            shape(16, [1, 7, 7], [1, 3, 3], [1, 2, 2], [0, 1, 1]),
            shape(1, [1, 30, 31], [1, 5, 5], [1, 1, 1], [0, 2, 2]),
            shape(8, [4, 7, 9], [3, 3, 1], [2, 1, 1], [1, 1, 0]),
        ];
        for (i, shape) in shapes.into_iter().enumerate() {
            let gather = Gather::forward(&shape);
            assert!(!winograd::suits::<f32>(&gather), "{i}");
            assert_eq!(pixels::suits::<f32>(&gather), FastPath::ConvPixels.is_on(), "{i}");
            let in_place = access::Stage::planes_in_place::<f32>(&gather.axes, true, 24, 24).is_some();
            assert_eq!(in_place, FastPath::ConvInPlace.is_on(), "{i}");
            let pixels = access::Stage::pixels_in_place(&gather.axes, true, 1, 24).is_some();
            assert_eq!(pixels, FastPath::ConvInPlace.is_on(), "{i}");
            check_all::<f32>(&shape, i as u64);
            check_all::<f32>(&shape.channels_last(), i as u64);
            check_all::<f64>(&shape, i as u64);
        }
        // Channels last, of two vectors, few channels and rows of padding only.
        for (i, width) in [32, 36].into_iter().enumerate() {
            let input = [1, 24, width];
            let shape = ConvShape::new(2, 7, 16, 1, input, [1, 7, 1], [1; 3], [0, 3, 0], [1; 3]).unwrap();
            check_all::<f32>(&shape.channels_last(), i as u64);
        }
    });
    let near = ConvShape::new(1, 22, 16, 1, [1, 1, 17], [1, 3, 1], [1; 3], [0, 1, 0], [1; 3]).unwrap();
    let far = ConvShape { padding: [0, 1 << 28, 0], dilation: [1, 1 << 28, 1], ..near };
    assert!(access::Stage::planes_in_place::<f32>(&Gather::forward(&far).axes, true, 22, 22).is_none());
    assert!(access::Stage::pixels_in_place(&Gather::forward(&far).axes, true, 1, 22).is_none());
}

/// Neighbours of 3 x 3 over many channels: narrow and wide rows, odd sizes, groups, volumes, areas cut along rows.
#[test]
fn many_channels_equal_the_definition() {
    let _alone = alone();
    at_every_level(|| {
        let shape = |batch, from, to, groups, input: [usize; 3], padding| {
            ConvShape::new(batch, from, to, groups, input, [1, 3, 3], [1; 3], [0, padding, padding], [1; 3]).unwrap()
        };
        let distant = |batch, [from, to, groups]: [usize; 3], input, padding, dilation| {
            ConvShape::new(batch, from, to, groups, input, [1, 3, 3], [1; 3], padding, dilation).unwrap()
        };
        let volume = |batch, [from, to, groups]: [usize; 3], input, taps, padding, dilation| {
            ConvShape::new(batch, from, to, groups, input, [taps, 3, 3], [1; 3], padding, dilation).unwrap()
        };
        let shapes = [
            shape(4, 32, 33, 1, [1, 9, 11], 1),
            shape(1, 33, 50, 1, [1, 14, 41], 0),
            shape(4, 64, 64, 2, [1, 10, 7], 2),
            shape(1, 17, 70, 1, [6, 5, 12], 1),
            shape(1, 40, 32, 1, [1, 4, 420], 1),
            // Neighbours at a distance, one or both ways.
            distant(2, [32, 33, 1], [1, 19, 25], [0, 2, 1], [1, 2, 3]),
            distant(2, [33, 34, 1], [3, 9, 70], [0, 1, 3], [1, 1, 2]),
            distant(2, [96, 64, 2], [1, 26, 9], [0, 4, 0], [1, 4, 1]),
            // Volumes: rows in planes, channels in pixels, taps along the depth at a distance, many of them.
            volume(1, [17, 33, 1], [5, 6, 70], 3, [1; 3], [1; 3]),
            volume(2, [64, 48, 2], [4, 9, 11], 2, [0, 1, 0], [1; 3]),
            volume(1, [20, 24, 1], [7, 8, 13], 3, [2, 1, 2], [2, 1, 2]),
            volume(1, [60, 16, 1], [6, 6, 10], 5, [3, 1, 1], [1; 3]),
        ];
        for (i, shape) in shapes.into_iter().enumerate() {
            assert_eq!(winograd::suits::<f32>(&Gather::forward(&shape)), FastPath::ConvWinograd.is_on(), "{i}");
            check_all::<f32>(&shape, i as u64);
            check_all::<f32>(&shape.channels_last(), i as u64);
        }
        check_all::<f64>(&shapes[0], 9);
        check_all::<bf16>(&shapes[0], 9);
    });
}

/// Positions of few pixels, of which every one or two have taps of their own, and tasks of several panels.
#[test]
fn positions_left_over_equal_the_definition() {
    let _alone = alone();
    at_every_level(|| {
        for (i, (batch, channels, size, taps)) in [
            (1, [150, 300, 1], [1, 7, 7], [1, 3, 3]),
            (2, [33, 70, 1], [1, 7, 6], [1, 7, 7]),
            (1, [64, 274, 2], [1, 5, 5], [1, 5, 5]),
            (1, [40, 90, 1], [3, 5, 4], [3, 3, 3]),
        ]
        .into_iter()
        .enumerate()
        {
            let [from, to, groups] = channels;
            let padding = taps.map(|t: usize| t / 2);
            let shape = ConvShape::new(batch, from, to, groups, size, taps, [1; 3], padding, [1; 3]).unwrap();
            check_all::<f32>(&shape, i as u64);
            check_all::<f64>(&shape.channels_last(), i as u64);
        }
    });
}

/// Panels cover every column once, differ by one vector at most, and tasks have as many vectors as one another, but for one.
#[test]
fn panels_are_even() {
    for columns in 1..600usize {
        for tasks in 1..=columns.div_ceil(128) {
            let panels = pixels::Panels::new(columns, 16, 3);
            for panels in [panels, panels.in_tasks(tasks, 3)] {
                let mut next = 0;
                for p in 0..panels.count {
                    let (first, vectors) = panels.get(p);
                    assert_eq!(first, next);
                    assert!(
                        (panels.least()..=panels.least() + 1).contains(&vectors) && vectors * 16 <= panels.widest()
                    );
                    next = first + vectors * 16;
                }
                assert_eq!(next, panels.padded());
                assert!(panels.widest() <= 48 && (panels.least() > 1 || panels.widest() < 48));
            }
            let panels = panels.in_tasks(tasks, 3);
            assert!(panels.count.is_multiple_of(tasks));
            let each = panels.count / tasks;
            let vectors = |task: usize| (0..each).map(|p| panels.get(task * each + p).1).sum::<usize>();
            let of_tasks: Vec<usize> = (0..tasks).map(vectors).collect();
            assert!(of_tasks.iter().max().unwrap() - of_tasks.iter().min().unwrap() <= 1, "{columns}, {tasks}");
        }
    }
}

/// Channels in pairs, where the machine multiplies such: odd numbers of them, groups, strides that leave places out,
/// volumes, few and many tiles, and sources that begin in the middle of a pair.
#[test]
fn pairs_equal_the_definition() {
    let _alone = alone();
    check_pairs();
}

/// The same in tiles; see [`crate::gemm::emulator`].
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn tiles_equal_the_definition() {
    let _alone = alone();
    crate::gemm::emulator::with_tiles(FastPath::ConvPairs, || {
        assert!(super::tiles::kernels().is_some());
        check_pairs();
        // Images that end inside a panel, panels that a task has many of, and few.
        for (batch, channels, size) in [(5, [17, 40], 9), (3, [40, 100], 30), (1, [130, 200], 6)] {
            let shape = ConvShape::new(
                batch,
                channels[0],
                channels[1],
                1,
                [1, size, size],
                [1, 3, 3],
                [1; 3],
                [0, 1, 1],
                [1; 3],
            );
            check_all::<bf16>(&shape.unwrap(), 3);
        }
    });
}

fn check_pairs() {
    let shapes = [
        ConvShape::new(2, 3, 20, 1, [1, 19, 23], [1, 7, 7], [1, 2, 2], [0, 3, 3], [1; 3]),
        ConvShape::new(3, 14, 9, 1, [1, 9, 9], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]),
        ConvShape::new(1, 30, 36, 2, [1, 12, 17], [1, 3, 3], [1, 3, 3], [0, 0, 2], [1, 1, 2]),
        ConvShape::new(2, 10, 6, 1, [6, 7, 8], [3, 3, 2], [2, 1, 1], [1, 1, 0], [1; 3]),
        ConvShape::new(1, 33, 65, 1, [1, 30, 31], [1, 1, 1], [1; 3], [0; 3], [1; 3]),
        ConvShape::new(5, 80, 70, 1, [1, 7, 7], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]),
        ConvShape::new(1, 5, 4, 1, [1, 1, 900], [1, 1, 5], [1, 1, 4], [0, 0, 2], [1; 3]),
    ];
    for (i, shape) in shapes.into_iter().enumerate() {
        let shape = shape.unwrap();
        check_all::<bf16>(&shape, i as u64);
        check_all::<bf16>(&shape.channels_last(), i as u64);
    }
    let shape = ConvShape::new(1, 8, 16, 1, [1, 5, 6], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]).unwrap().channels_last();
    let mut numbers = Numbers(5);
    let (mut x, w) = (numbers.small::<bf16>(shape.input_len()), numbers.small::<bf16>(shape.weight_len()));
    let mut outs = [vec![bf16::from_i64(7); shape.output_len()], vec![bf16::from_i64(9); shape.output_len()]];
    for (shift, out) in outs.iter_mut().enumerate() {
        // SAFETY: the arrays have the shape's sizes, the input one more in front of it the second time.
        unsafe { forward(DType::BF16, &shape, bytes(&x[shift..]), bytes(&w), None, bytes_mut(out)) };
        x.insert(0, bf16::from_i64(1));
    }
    assert_eq!(outs[0], outs[1]);
    assert!(outs[0].iter().any(|y| *y != bf16::from_i64(0)));
}

/// What is computed in tiles must not spread an infinity over them.
#[test]
fn infinities_do_not_fill_tiles() {
    let _alone = alone();
    let s = ConvShape::new(1, 32, 32, 1, [1, 20, 20], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]).unwrap();
    for s in [s, s.channels_last()] {
        let (mut x, w) = (vec![1f32; s.input_len()], vec![1f32; s.weight_len()]);
        x[index(s.input, 32, s.channels_last, 0, 3, [0, 6, 9])] = f32::INFINITY;
        x[index(s.input, 32, s.channels_last, 0, 7, [0, 15, 2])] = 3e38;
        let mut y = vec![0f32; s.output_len()];
        // SAFETY: the arrays have the shape's sizes.
        unsafe { forward(DType::F32, &s, bytes(&x), bytes(&w), None, bytes_mut(&mut y)) };
        for h in 0..20usize {
            for w in 0..20usize {
                let found = y[index(s.output, 32, s.channels_last, 0, 5, [0, h, w])];
                let near = |y: usize, x: usize| h.abs_diff(y) <= 1 && w.abs_diff(x) <= 1;
                let edge = |i: usize| if i == 0 || i == 19 { 2.0 } else { 3.0 };
                match (near(6, 9), near(15, 2)) {
                    (true, _) => assert_eq!(found, f32::INFINITY),
                    (_, true) => assert!(found.is_finite() && found > 2.9e38),
                    _ => assert_eq!(found, 32.0 * edge(h) * edge(w)),
                }
            }
        }
        // Only one tap of one result reads a corner.
        let s = ConvShape { padding: [0; 3], output: [1, 18, 18], ..s };
        let (mut x, y) = (vec![1f32; s.input_len()], vec![1f32; s.output_len()]);
        x[index(s.input, 32, s.channels_last, 0, 3, [0, 0, 19])] = f32::INFINITY;
        let mut w = vec![0f32; s.weight_len()];
        // SAFETY: as above.
        unsafe { backward_weight(DType::F32, &s, bytes(&x), bytes(&y), bytes_mut(&mut w)) };
        let corner = |i: usize| i / 9 % 32 == 3 && i % 9 == 2;
        assert!(w.iter().enumerate().all(|(i, v)| *v == if corner(i) { f32::INFINITY } else { 324.0 }));
    }
}

/// A zero of the padding or between rows must not turn an infinity elsewhere into NaN.
#[test]
fn infinities_stay_where_they_are() {
    let _alone = alone();
    let s = ConvShape::new(1, 2, 2, 2, [1, 5, 5], [1, 3, 3], [1; 3], [0; 3], [1; 3]).unwrap();
    for s in [s, s.channels_last()] {
        let mut x = vec![1f32; s.input_len()];
        let corner = index(s.input, 2, s.channels_last, 0, 0, [0, 0, 4]);
        x[corner] = f32::INFINITY;
        let y = vec![1f32; s.output_len()];
        let mut w = vec![0f32; s.weight_len()];
        // SAFETY: the arrays have the shape's sizes.
        unsafe { backward_weight(DType::F32, &s, bytes(&x), bytes(&y), bytes_mut(&mut w)) };
        assert!(w.iter().enumerate().all(|(i, &v)| if i == 2 { v == f32::INFINITY } else { v == 9.0 }), "{w:?}");
    }
}

#[test]
fn infinities_meet_no_padding() {
    let _alone = alone();
    let s = ConvShape::new(1, 32, 32, 1, [1, 20, 20], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]).unwrap();
    for s in [s, s.channels_last()] {
        let (x, mut y) = (vec![bf16::ONE; s.input_len()], vec![bf16::ONE; s.output_len()]);
        y[index(s.output, 32, s.channels_last, 0, 5, [0; 3])] = bf16::INFINITY;
        let mut w = vec![bf16::ZERO; s.weight_len()];
        // SAFETY: the arrays have the shape's sizes.
        unsafe { backward_weight(DType::BF16, &s, bytes(&x), bytes(&y), bytes_mut(&mut w)) };
        let inside = |i: usize| i / (32 * 9) == 5 && i % 9 >= 3 && !i.is_multiple_of(3);
        assert!(w.iter().enumerate().all(|(i, v)| v.is_finite() != inside(i) && !v.is_nan()));
    }
}

#[test]
fn the_thread_count_changes_no_bit() {
    let _alone = alone();
    for channels in [24, 48] {
        the_bits_of(channels);
    }
}

fn the_bits_of(channels: usize) {
    let s = ConvShape::new(4, channels, 32, 1, [1, 20, 20], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]).unwrap();
    let mut numbers = Numbers(7);
    let mut random = |n: usize| (0..n).map(|_| numbers.next() as f32 / 1e15 - 4.0).collect::<Vec<f32>>();
    let (x, w, y) = (random(s.input_len()), random(s.weight_len()), random(s.output_len()));
    let run = |threads: usize| {
        let before = flambeau_base::parallel::num_threads();
        flambeau_base::parallel::set_num_threads(threads);
        let mut out = [vec![0f32; y.len()], vec![0f32; x.len()], vec![0f32; w.len()]];
        // SAFETY: the arrays have the shape's sizes.
        unsafe {
            forward(DType::F32, &s, bytes(&x), bytes(&w), None, bytes_mut(&mut out[0]));
            backward_input(DType::F32, &s, bytes(&y), bytes(&w), bytes_mut(&mut out[1]));
            backward_weight(DType::F32, &s, bytes(&x), bytes(&y), bytes_mut(&mut out[2]));
        }
        flambeau_base::parallel::set_num_threads(before);
        out
    };
    assert_eq!(run(1), run(3));
}

/// Gradients of weights of `bf16` as products of matrices, and transposes of patches: several images at a time, channels or
/// positions in parts, residues, padding on every side, what lies under the taps as it is.
#[test]
fn weights_of_halves_equal_the_definition() {
    let _alone = alone();
    let shape = |channels: [usize; 2], input: [usize; 3], kernel, stride: [usize; 3], padding, dilation: [usize; 3]| {
        ConvShape::new(3, channels[0], channels[1], 1, input, kernel, stride, padding, dilation).unwrap()
    };
    let shapes = [
        shape([17, 20], [1, 9, 11], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]),
        shape([16, 33], [1, 7, 40], [1, 1, 1], [1; 3], [0; 3], [1; 3]),
        shape([5, 16], [1, 40, 37], [1, 5, 4], [1, 2, 3], [0, 3, 2], [1, 1, 2]),
        shape([3, 18], [5, 8, 9], [3, 2, 3], [2, 1, 2], [1, 0, 4], [2, 1, 1]),
        shape([20, 70], [1, 4, 5], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]),
        shape([8, 16], [1, 1, 50], [1, 1, 7], [1, 1, 2], [0, 0, 3], [1; 3]),
        shape([6, 40], [1, 16, 24], [1, 8, 8], [1, 8, 8], [0; 3], [1; 3]),
    ];
    for (i, shape) in shapes.iter().enumerate() {
        for shape in [*shape, shape.channels_last()] {
            check_all::<bf16>(&shape, i as u64);
            check_all::<f16>(&shape, i as u64);
        }
    }
}

#[test]
fn impossible_shapes_are_refused() {
    let new = |groups, kernel, stride, input| {
        ConvShape::new(1, 4, 6, groups, [1, 1, input], [1, 1, kernel], [1, 1, stride], [0; 3], [1; 3])
    };
    assert!(new(2, 3, 1, 5).is_ok());
    for bad in [new(3, 3, 1, 5), new(0, 3, 1, 5), new(1, 0, 1, 5), new(1, 3, 0, 5), new(1, 6, 1, 5)] {
        assert!(bad.is_err());
    }
    let transposed = |output_padding| {
        ConvShape::transposed(1, 4, 6, 2, [1, 1, 5], [1, 1, 3], [1, 1, 2], [0, 0, 1], [0, 0, output_padding], [1; 3])
    };
    assert_eq!(transposed(1).unwrap().input, [1, 1, 10]);
    assert!(transposed(2).is_err());
}

/// What would have to lay out more memory than there is says so beforehand, and what would not is not refused.
#[test]
fn taps_too_far_apart() {
    let new = |channels, size: usize, kernel, stride, padding, dilation| {
        ConvShape::new(1, channels, 2, 1, [1, size, size], kernel, stride, padding, dilation)
    };
    for far in [1 << 45, usize::MAX / 4] {
        let (padding, dilation) = ([0, far, far], [1, far, far]);
        assert!(new(3, 4, [1, 3, 3], [1; 3], padding, dilation).is_err(), "{far}");
        assert!(ConvShape::transposed(1, 3, 2, 1, [1, 4, 4], [1, 3, 3], [1; 3], [0; 3], [0; 3], dilation).is_err());
    }
    let refused = |shape: ConvShape, transposed| match shape.check_memory(transposed) {
        Ok(()) => false,
        Err(error) => error.kind() == flambeau_base::ErrorKind::OutOfMemory,
    };
    let far = 1 << 38;
    let shape = new(3, 4, [1, 3, 3], [1; 3], [0, far, far], [1, far, far]).unwrap();
    assert!(refused(shape, false) && refused(shape, true));
    // The tile's own width counts; with channels last, what strides leave out does too.
    let wide = new(1, 768, [1, 3, 1], [1; 3], [0, 1 << 30, 0], [1, 1 << 30, 1]).unwrap();
    assert!(refused(wide, false));
    let strided = new(1, 4, [1; 3], [1, far, far], [0, far, far], [1; 3]).unwrap();
    assert!(refused(strided.channels_last(), false) && !refused(strided, false));
    let once = new(1, 4, [1; 3], [1, 1 << 62, 1 << 62], [0; 3], [1; 3]).unwrap();
    assert!(once.output == [1; 3] && !refused(once, false));
    // Channels are laid out a few at a time, and the transpose's taps are nearer by the stride.
    let dilated = new(512, 2001, [1, 3, 3], [1; 3], [0, 1000, 1000], [1, 1000, 1000]).unwrap();
    assert!(!refused(dilated, false));
    let apart = ConvShape::transposed(1, 512, 1, 1, [1, 8, 8], [1, 9, 9], [1, 512, 512], [0; 3], [0; 3], [1, 512, 512]);
    assert!(!refused(apart.unwrap(), true));
}
