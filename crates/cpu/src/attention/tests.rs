//! Against the definition, computed in `f64`; gradients against its derivative, written out.

use super::{
    Attention, AttentionElement, AttentionSizes, Mask, Operand4, Result4, attention_backward, attention_forward,
};
use flambeau_base::dtype::{bf16, f16};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use flambeau_base::fast_paths::FastPath;
use flambeau_base::{Bool, Element, parallel};

/// Values in a layout: plain, heads inside the rows (as a projection leaves them), or columns first.
#[derive(Clone)]
struct Values<T> {
    data: Vec<T>,
    strides: [isize; 4],
}

impl<T: Element> Values<T> {
    fn new(shape: [usize; 4], layout: usize, mut value: impl FnMut(usize) -> f64) -> Self {
        let [b, h, l, e] = shape.map(|n| n as isize);
        let (strides, spare) = match layout {
            0 => ([h * l * e, l * e, e, 1], 0),
            1 => ([h * l * e, e, h * e, 1], 0),
            _ => ([h * l * e * 2, l * e * 2, 2, l * 2], 1),
        };
        let len = ((b * h * l * e) as usize) << spare;
        Values { data: (0..len).map(|i| T::from_f64(value(i))).collect(), strides }
    }
    fn index(&self, b: usize, h: usize, i: usize, j: usize) -> usize {
        [b, h, i, j].iter().zip(self.strides).map(|(&i, s)| i * s as usize).sum()
    }
    fn get(&self, b: usize, h: usize, i: usize, j: usize) -> f64 {
        self.data[self.index(b, h, i, j)].to_f64()
    }
    fn operand(&self) -> Operand4<T> {
        Operand4 { start: self.data.as_ptr(), strides: self.strides }
    }
    fn result(&mut self) -> Result4<T> {
        Result4 { start: self.data.as_mut_ptr(), strides: self.strides }
    }
}

fn random(seed: usize) -> impl FnMut(usize) -> f64 {
    move |i| {
        let x = ((i + seed * 7919) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((x >> 33) as f64 / (1u64 << 30) as f64) - 1.0
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Masking {
    None,
    Boolean,
    Additive,
    Wide,
}

fn check<T: AttentionElement>(s: AttentionSizes, masking: Masking, causal: bool, layout: usize, tolerance: f64) {
    let AttentionSizes { batch, heads, key_heads, queries, keys, size, value_size } = s;
    let q = Values::<T>::new([batch, heads, queries, size], layout, random(1));
    let k = Values::<T>::new([batch, key_heads, keys, size], layout, random(2));
    let v = Values::<T>::new([batch, key_heads, keys, value_size], layout, random(3));
    let d_out = Values::<T>::new([batch, heads, queries, value_size], layout, random(4));
    let shape = [1, heads, queries, keys];
    // Row 1 is masked out altogether.
    let masked = |i: usize| (i * 31) % 7 < 2 || (i / keys.max(1)) % queries == 1;
    let boolean = Values::<Bool>::new(shape, 0, |i| !masked(i) as u8 as f64);
    let bias = |i: usize| if masked(i) { f64::NEG_INFINITY } else { (i % 5) as f64 * 0.5 };
    let additive = Values::<T>::new(shape, 0, bias);
    let wide = Values::<T::Sum>::new(shape, 0, bias);
    let unbatched = |m: [isize; 4]| [0, m[1], m[2], m[3]];
    let scale = 0.7;
    let attention = Attention {
        sizes: s,
        q: q.operand(),
        k: k.operand(),
        v: v.operand(),
        mask: match masking {
            Masking::None => Mask::None,
            Masking::Boolean => {
                Mask::Boolean(Operand4 { start: boolean.data.as_ptr(), strides: unbatched(boolean.strides) })
            }
            Masking::Additive => {
                Mask::Additive(Operand4 { start: additive.data.as_ptr(), strides: unbatched(additive.strides) })
            }
            Masking::Wide => {
                Mask::AdditiveWide(Operand4 { start: wide.data.as_ptr(), strides: unbatched(wide.strides) })
            }
        },
        causal,
        scale,
    };
    let nan = |_| f64::NAN;
    let mut out = Values::<T>::new([batch, heads, queries, value_size], layout, nan);
    let mut logsumexp = vec![<T::Sum as Element>::from_f64(f64::NAN); batch * heads * queries];
    let mut d_q = Values::<T>::new([batch, heads, queries, size], layout, nan);
    let mut d_k = Values::<T>::new([batch, key_heads, keys, size], layout, nan);
    let mut d_v = Values::<T>::new([batch, key_heads, keys, value_size], layout, nan);
    // SAFETY: every operand has the sizes and strides it is given with.
    unsafe {
        attention_forward(&attention, out.result(), logsumexp.as_mut_ptr());
        attention_backward(
            &attention,
            out.operand(),
            logsumexp.as_ptr(),
            d_out.operand(),
            d_q.result(),
            d_k.result(),
            d_v.result(),
        );
    }

    let what = format!("{} {s:?} {masking:?} causal {causal} layout {layout}", T::DTYPE);
    let close = |name: &str, x: f64, y: f64, weight: f64| {
        assert!((x - y).abs() <= tolerance * weight, "{name}: {x} is not {y}; {what}");
    };
    let group = heads / key_heads;
    let mut want_k = Values::<f64>::new([batch, key_heads, keys, size], 0, |_| 0.0);
    let mut want_v = Values::<f64>::new([batch, key_heads, keys, value_size], 0, |_| 0.0);
    for b in 0..batch {
        for h in 0..heads {
            let kh = h / group;
            for i in 0..queries {
                let scores: Vec<f64> = (0..keys)
                    .map(|j| {
                        let dot: f64 = (0..size).map(|e| q.get(b, h, i, e) * k.get(b, kh, j, e)).sum();
                        let bias = match masking {
                            Masking::None => 0.0,
                            Masking::Boolean if boolean.data[boolean.index(0, h, i, j)].get() => 0.0,
                            Masking::Boolean => f64::NEG_INFINITY,
                            _ => wide.get(0, h, i, j),
                        };
                        if causal && j > i { f64::NEG_INFINITY } else { scale * dot + bias }
                    })
                    .collect();
                let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|x| if top.is_finite() { (x - top).exp() } else { 0.0 }).sum();
                let weights: Vec<f64> =
                    scores.iter().map(|x| if total > 0.0 { (x - top).exp() / total } else { 0.0 }).collect();
                let lse = if total > 0.0 { top + total.ln() } else { 0.0 };
                close("logsumexp", logsumexp[(b * heads + h) * queries + i].to_f64(), lse, 1.0 + lse.abs());
                for e in 0..value_size {
                    let want: f64 = (0..keys).map(|j| weights[j] * v.get(b, kh, j, e)).sum();
                    close("out", out.get(b, h, i, e), want, 1.0);
                }
                let d_weights: Vec<f64> = (0..keys)
                    .map(|j| (0..value_size).map(|e| d_out.get(b, h, i, e) * v.get(b, kh, j, e)).sum())
                    .collect();
                let delta: f64 = (0..keys).map(|j| weights[j] * d_weights[j]).sum();
                for e in 0..size {
                    let want: f64 =
                        (0..keys).map(|j| weights[j] * (d_weights[j] - delta) * scale * k.get(b, kh, j, e)).sum();
                    close("d_q", d_q.get(b, h, i, e), want, 4.0);
                }
                for j in 0..keys {
                    for e in 0..size {
                        let at = want_k.index(b, kh, j, e);
                        want_k.data[at] += weights[j] * (d_weights[j] - delta) * scale * q.get(b, h, i, e);
                    }
                    for e in 0..value_size {
                        let at = want_v.index(b, kh, j, e);
                        want_v.data[at] += weights[j] * d_out.get(b, h, i, e);
                    }
                }
            }
        }
        for h in 0..key_heads {
            for j in 0..keys {
                for e in 0..size {
                    let want = want_k.get(b, h, j, e);
                    close("d_k", d_k.get(b, h, j, e), want, 4.0 + want.abs());
                }
                for e in 0..value_size {
                    let want = want_v.get(b, h, j, e);
                    close("d_v", d_v.get(b, h, j, e), want, 4.0 + want.abs());
                }
            }
        }
    }
}

fn check_type<T: AttentionElement>(tolerance: f64) {
    let shapes = [(1, 2, 2, 3, 5, 4, 4), (2, 4, 2, 70, 33, 8, 12), (1, 2, 1, 150, 300, 16, 7), (1, 3, 1, 1, 520, 5, 5)];
    for (which, (batch, heads, key_heads, queries, keys, size, value_size)) in shapes.into_iter().enumerate() {
        let s = AttentionSizes { batch, heads, key_heads, queries, keys, size, value_size };
        for (i, masking) in [Masking::None, Masking::Boolean, Masking::Additive, Masking::Wide].into_iter().enumerate()
        {
            for causal in [false, true] {
                check::<T>(s, masking, causal, (i + which + causal as usize) % 3, tolerance);
            }
        }
    }
}

#[test]
fn single_and_double() {
    check_type::<f32>(2e-6);
    check_type::<f64>(1e-14);
}

#[test]
fn halves() {
    check_type::<f16>(2e-3);
    check_type::<bf16>(1.5e-2);
}

/// Products in tiles; see [`crate::gemm::emulator`].
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn tiles() {
    crate::gemm::emulator::with_tiles(FastPath::GemmGroups, || {
        assert!(super::stays_narrow::<bf16>(8) && !super::stays_narrow::<f16>(8) && !super::stays_narrow::<f32>(8));
        check_type::<bf16>(1.5e-2);
    });
}

#[test]
fn no_keys() {
    let s = AttentionSizes { batch: 1, heads: 2, key_heads: 1, queries: 3, keys: 0, size: 4, value_size: 5 };
    check::<f32>(s, Masking::None, false, 0, 0.0);
}

/// NaN reaches the rows whose scores it is in, and infinite scores make NaN, as in PyTorch.
#[test]
fn not_a_number() {
    let s = AttentionSizes { batch: 1, heads: 1, key_heads: 1, queries: 4, keys: 3, size: 2, value_size: 2 };
    let mut q = Values::<f32>::new([1, 1, 4, 2], 0, random(1));
    q.data[2] = f32::NAN;
    let k = Values::<f32>::new([1, 1, 3, 2], 0, random(2));
    let mut bias = Values::<f32>::new([1, 1, 4, 3], 0, |_| 0.0);
    bias.data[10] = f32::INFINITY;
    let mut out = Values::<f32>::new([1, 1, 4, 2], 0, |_| 0.0);
    let mut logsumexp = [0f32; 4];
    let mask = Mask::Additive(bias.operand());
    let attention =
        Attention { sizes: s, q: q.operand(), k: k.operand(), v: k.operand(), mask, causal: false, scale: 1.0 };
    // SAFETY: the operands have these sizes.
    unsafe { attention_forward(&attention, out.result(), logsumexp.as_mut_ptr()) };
    for i in 0..4 {
        let nan = i == 1 || i == 3;
        assert!(out.data[2 * i..2 * i + 2].iter().all(|x| x.is_nan() == nan), "{:?}", out.data);
    }
}

/// The same bits whatever the number of threads.
#[test]
fn threads() {
    let s = AttentionSizes { batch: 1, heads: 2, key_heads: 1, queries: 300, keys: 600, size: 16, value_size: 16 };
    let q = Values::<f32>::new([1, 2, 300, 16], 0, random(1));
    let k = Values::<f32>::new([1, 1, 600, 16], 0, random(2));
    let attention = Attention {
        sizes: s,
        q: q.operand(),
        k: k.operand(),
        v: k.operand(),
        mask: Mask::None,
        causal: true,
        scale: 1.0,
    };
    let run = |threads: usize| {
        parallel::set_num_threads(threads);
        let mut out = q.clone();
        let mut logsumexp = vec![0f32; 600];
        let (mut d_q, mut d_k, mut d_v) = (q.clone(), k.clone(), k.clone());
        // SAFETY: the operands have these sizes.
        unsafe {
            attention_forward(&attention, out.result(), logsumexp.as_mut_ptr());
            let (d_q, d_k, d_v) = (d_q.result(), d_k.result(), d_v.result());
            attention_backward(&attention, out.operand(), logsumexp.as_ptr(), q.operand(), d_q, d_k, d_v);
        }
        [out.data, d_q.data, d_k.data, d_v.data]
    };
    let threads = parallel::num_threads();
    let (one, two) = (run(1), run(2));
    parallel::set_num_threads(threads);
    assert_eq!(one, two);
}
