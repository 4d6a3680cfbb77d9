use super::*;
use flambeau_base::{bf16, f16};

/// A small generator (xorshift, Marsaglia 2003).
struct Numbers(u64);
impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % n as u64) as usize
    }
}

/// Positions of the window of output `i` along axis `a`, and its divisor's factor, by the definition.
fn positions(s: &PoolShape, a: usize, i: usize, include_pad: bool) -> (Vec<usize>, i64) {
    let size = s.input[a] as i64;
    let Some(f) = s.fixed else {
        let (n, i) = (s.output[a] as f64, i as f64);
        let (start, end) = ((i * size as f64 / n).floor() as usize, ((i + 1.0) * size as f64 / n).ceil() as usize);
        return ((start..end).collect(), (end - start) as i64);
    };
    let start = (i * f.stride[a]) as i64 - f.padding[a] as i64;
    let all: Vec<usize> = (0..f.kernel[a] as i64)
        .map(|k| start + k * f.dilation[a] as i64)
        .filter(|p| (0..size).contains(p))
        .map(|p| p as usize)
        .collect();
    let padded = (start + f.kernel[a] as i64).min(size + f.padding[a] as i64) - start;
    let divisor = if include_pad { padded } else { all.len() as i64 };
    (all, divisor)
}

fn at(s: &PoolShape, sizes: [usize; 3], plane: usize, p: usize) -> usize {
    let positions: usize = sizes.iter().product();
    if s.channels_last {
        (plane / s.channels * positions + p) * s.channels + plane % s.channels
    } else {
        plane * positions + p
    }
}

fn check<T: Element>(s: &PoolShape, include_pad: bool, divisor: Option<i64>, numbers: &mut Numbers) {
    let float = T::DTYPE.is_floating_point();
    let make = |numbers: &mut Numbers, nan: bool| match numbers.below(if float && nan { 12 } else { 10 }) {
        10 => T::from_f64(f64::NAN),
        11 => T::from_f64(f64::NEG_INFINITY),
        i => T::from_i64(12 * i as i64 - if T::DTYPE.is_signed() { 48 } else { 0 }),
    };
    let x: Vec<T> = (0..s.input_len()).map(|_| make(numbers, true)).collect();
    let clean: Vec<T> = (0..s.input_len()).map(|_| make(numbers, false)).collect();
    let g: Vec<T> = (0..s.output_len()).map(|_| make(numbers, false)).collect();
    let mut max = vec![T::default(); s.output_len()];
    let mut indices = vec![0i64; s.output_len()];
    let mut empty = vec![false; s.output_len()];
    let mut average = vec![0f64; s.output_len()];
    let mut max_back = vec![0f64; s.input_len()];
    let mut average_back = vec![0f64; s.input_len()];
    // Sums of magnitudes: errors are in proportion to them.
    let (mut weight, mut weight_back) = (vec![0f64; s.output_len()], vec![0f64; s.input_len()]);
    let output: usize = s.output.iter().product();
    for plane in 0..s.batch * s.channels {
        for p in 0..output {
            let o = [p / (s.output[1] * s.output[2]), p / s.output[2] % s.output[1], p % s.output[2]];
            let w: [(Vec<usize>, i64); 3] = std::array::from_fn(|a| positions(s, a, o[a], include_pad));
            let place = at(s, s.output, plane, p);
            let mut window = Vec::new();
            for d in &w[0].0 {
                for h in &w[1].0 {
                    window.extend(w[2].0.iter().map(|w| (d * s.input[1] + h) * s.input[2] + w));
                }
            }
            empty[place] = window.is_empty();
            let mut best = (lowest::<T>(T::DTYPE).to_f64(), window.first().copied().unwrap_or(0));
            let mut sum = 0.0;
            for &i in &window {
                let v = x[at(s, s.input, plane, i)].to_f64();
                if v > best.0 || v.is_nan() {
                    best = (v, i);
                }
                sum += clean[at(s, s.input, plane, i)].to_f64();
            }
            max[place] = T::from_f64(best.0);
            indices[place] = best.1 as i64;
            max_back[at(s, s.input, plane, best.1)] += g[place].to_f64();
            let by = divisor.unwrap_or(w.iter().map(|w| w.1).product::<i64>()).max(1) as f64;
            let quotient = |x: f64| if float { x / by } else { (x / by).trunc() };
            average[place] = quotient(sum);
            weight[place] = window.iter().map(|&i| clean[at(s, s.input, plane, i)].to_f64().abs()).sum::<f64>() / by;
            for &i in &window {
                weight_back[at(s, s.input, plane, i)] += quotient(g[place].to_f64()).abs();
                average_back[at(s, s.input, plane, i)] += quotient(g[place].to_f64());
            }
        }
    }
    let near = |name: &str, got: &[T], want: &[f64], weights: &[f64]| {
        let tolerance = [1e-6, 1e-2][(T::DTYPE.size() == 2) as usize];
        for ((g, e), weight) in got.iter().zip(want).zip(weights) {
            let e = if float { *e } else { T::from_i64(*e as i64).to_f64() };
            assert!(
                (g.to_f64() - e).abs() <= tolerance * weight.max(1.0),
                "{name} of {}: {g:?}, not {e}: {s:?}",
                T::DTYPE
            );
        }
    };
    let mut y = vec![T::from_i64(7); s.output_len()];
    let mut found = vec![-1i64; s.output_len()];
    let mut back = vec![T::from_i64(7); s.input_len()];
    // SAFETY: the arrays have the shape's sizes.
    unsafe {
        max_pool(T::DTYPE, s, x.as_ptr().cast(), y.as_mut_ptr().cast(), Some(found.as_mut_ptr()));
        let same = |a: &T, b: &T| a == b || (a.to_f64().is_nan() && b.to_f64().is_nan());
        let equal = |y: &[T]| y.iter().zip(&max).all(|(a, b)| same(a, b));
        assert!(equal(&y), "max of {}: {y:?}, not {max:?}: {s:?}", T::DTYPE);
        // The index of the maximum of nothing is anything.
        let right = |i: usize| empty[i] || found[i] == indices[i];
        assert!((0..found.len()).all(right), "indices of {}: {s:?}", T::DTYPE);
        y.fill(T::from_i64(7));
        max_pool(T::DTYPE, s, x.as_ptr().cast(), y.as_mut_ptr().cast(), None);
        assert!(equal(&y), "max without indices of {}: {y:?}, not {max:?}: {s:?}", T::DTYPE);
        if float && s.input_len() > 0 {
            max_pool_backward(T::DTYPE, s, g.as_ptr().cast(), indices.as_ptr(), back.as_mut_ptr().cast());
            near("max backward", &back, &max_back, &weight_back);
        }
        avg_pool(T::DTYPE, s, include_pad, divisor, clean.as_ptr().cast(), y.as_mut_ptr().cast());
        near("average", &y, &average, &weight);
        if float {
            avg_pool_backward(T::DTYPE, s, include_pad, divisor, g.as_ptr().cast(), back.as_mut_ptr().cast());
            near("average backward", &back, &average_back, &weight_back);
        }
    }
}

fn random_shape(numbers: &mut Numbers) -> Option<PoolShape> {
    let dims = 1 + numbers.below(3);
    let mut axis = |low: usize, high: usize, other: usize| -> [usize; 3] {
        std::array::from_fn(|a| if a < 3 - dims { other } else { low + numbers.below(high - low + 1) })
    };
    let input = axis(1, [150, 40, 9][dims - 1], 1);
    let kernel = axis(1, [40, 16, 4][dims - 1], 1);
    let (stride, dilation, output) = (axis(1, 6, 1), axis(1, 2, 1), axis(1, [40, 12, 7][dims - 1], 1));
    let padding: [usize; 3] = std::array::from_fn(|a| numbers.below(kernel[a] / 2 + 1));
    let (batch, channels) = (numbers.below(3), [1, 2, 5, 13, 45, 300][numbers.below(6)]);
    let shape = if numbers.below(3) == 0 {
        PoolShape::adaptive(batch, channels, input, output)
    } else {
        let ceil = numbers.below(2) == 0;
        let mut output = [0; 3];
        for a in 0..3 {
            let of = |x: [usize; 3]| x[a] as i64;
            output[a] = pool_output_size(of(input), of(kernel), of(stride), of(padding), of(dilation), ceil).ok()?;
        }
        PoolShape::new(batch, channels, input, kernel, stride, padding, dilation, output)
    };
    Some(if numbers.below(2) == 0 { shape.channels_last() } else { shape })
}

#[test]
fn random_shapes_equal_the_definition() {
    let mut numbers = Numbers(4711);
    let mut done = 0;
    while done < 250 {
        let Some(s) = random_shape(&mut numbers) else { continue };
        let include_pad = numbers.below(2) == 0;
        // An average with dilation has no divisor of its own.
        let dilated = s.fixed.is_some_and(|f| f.dilation != [1; 3]);
        let divisor = (dilated || numbers.below(3) == 0).then_some(3);
        check::<f32>(&s, include_pad, divisor, &mut numbers);
        if done < 80 {
            check::<f64>(&s, include_pad, divisor, &mut numbers);
            check::<bf16>(&s, include_pad, divisor, &mut numbers);
            check::<f16>(&s, include_pad, divisor, &mut numbers);
            check::<i64>(&s, include_pad, divisor, &mut numbers);
            check::<i32>(&s, include_pad, divisor, &mut numbers);
            check::<u8>(&s, include_pad, Some(5), &mut numbers);
        }
        done += 1;
    }
}

/// Values asked of PyTorch 2.13.
#[test]
fn output_sizes_follow_the_rule() {
    let size = |input, kernel, stride, padding, dilation, ceil| {
        pool_output_size(input, kernel, stride, padding, dilation, ceil).ok()
    };
    assert_eq!(size(112, 3, 2, 1, 1, false), Some(56));
    assert_eq!(size(5, 2, 2, 0, 1, true), Some(3));
    assert_eq!(size(5, 2, 2, 0, 1, false), Some(2));
    // The third window would start in the right padding.
    assert_eq!(size(4, 2, 3, 1, 1, true), Some(2));
    assert_eq!(size(1, 2, 2, 0, 1, true), Some(1));
    assert_eq!(size(1, 2, 2, 0, 1, false), None);
    assert_eq!(size(8, 3, 1, 2, 1, false), None);
    assert_eq!(size(8, 3, 1, 2, 2, false), Some(8));
    assert_eq!(size(8, 3, 0, 0, 1, false), None);
    assert_eq!(size(8, 3, 1, -1, 1, false), None);
    assert_eq!(size(8, 0, 1, 0, 1, false), None);
    assert_eq!(size(i64::MAX, i64::MAX, 1, 0, i64::MAX, false), None);
}
