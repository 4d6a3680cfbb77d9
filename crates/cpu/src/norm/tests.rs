use super::results::{Joint, Past, put_results};
use super::rows::{LANES, LongDeviations};
use super::*;
use crate::copy::stream;
use crate::math::{Float, Isa, Kernel, Level, entry};
use crate::reduce::Operand;
use flambeau_base::{Element, bf16, f16};

fn operand<T: Element>(v: &mut [T]) -> Operand {
    Operand { data: v.as_mut_ptr().cast(), dtype: T::DTYPE }
}

fn values<T: Element>(n: usize, seed: usize, centre: f64) -> Vec<T> {
    (0..n).map(|i| T::from_f64((((i + seed) * 7919) % 1009) as f64 / 504.5 - 1.0 + centre)).collect()
}

fn doubles<T: Element>(v: &[T]) -> Vec<f64> {
    v.iter().map(|x| x.to_f64()).collect()
}

fn close<T: Element>(what: &str, got: &[T], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (i, (g, &w)) in got.iter().zip(want).enumerate() {
        let g = g.to_f64();
        assert!((g - w).abs() <= tolerance * w.abs().max(1.0), "{what} {i}: {g} for {w}");
    }
}

/// Every norm is this: sets of positions normalised together, and a parameter for each position.
struct Reference {
    sets: Vec<Vec<usize>>,
    channel: Vec<usize>,
    channels: usize,
    centred: bool,
    /// Whether statistics follow the input.
    training: bool,
}

const EPS: f64 = 1e-3;

impl Reference {
    fn moments(&self, x: &[f64], set: &[usize]) -> (f64, f64) {
        let n = set.len() as f64;
        let mean = if self.centred { set.iter().map(|&i| x[i]).sum::<f64>() / n } else { 0.0 };
        (mean, set.iter().map(|&i| (x[i] - mean).powi(2)).sum::<f64>() / n)
    }

    fn forward(&self, x: &[f64], w: &[f64], b: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let mut out = vec![0.0; x.len()];
        let (mut means, mut rstds) = (vec![], vec![]);
        for set in &self.sets {
            let (mean, variance) = self.moments(x, set);
            let rstd = 1.0 / (variance + EPS).sqrt();
            for &i in set {
                out[i] = (x[i] - mean) * rstd * w[self.channel[i]] + b[self.channel[i]];
            }
            means.push(mean);
            rstds.push(rstd);
        }
        (out, means, rstds)
    }

    /// By central differences for the input, by definition for the parameters.
    fn backward(&self, g: &[f64], x: &[f64], w: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let (mut gx, mut gw, mut gb) = (vec![0.0; x.len()], vec![0.0; self.channels], vec![0.0; self.channels]);
        for set in &self.sets {
            let fixed = self.moments(x, set);
            let loss = |x: &[f64]| {
                let (mean, variance) = if self.training { self.moments(x, set) } else { fixed };
                let rstd = 1.0 / (variance + EPS).sqrt();
                set.iter().map(|&i| g[i] * w[self.channel[i]] * (x[i] - mean) * rstd).sum::<f64>()
            };
            let mut moved = x.to_vec();
            for &i in set {
                const H: f64 = 1e-5;
                moved[i] = x[i] + H;
                let above = loss(&moved);
                moved[i] = x[i] - H;
                gx[i] = (above - loss(&moved)) / (2.0 * H);
                moved[i] = x[i];
                gw[self.channel[i]] += g[i] * (x[i] - fixed.0) / (fixed.1 + EPS).sqrt();
                gb[self.channel[i]] += g[i];
            }
        }
        (gx, gw, gb)
    }
}

/// Buffers of one case: data of type `D`, parameters and statistics of type `P`.
struct Case<D, P> {
    x: Vec<D>,
    grad: Vec<D>,
    out: Vec<D>,
    grad_input: Vec<D>,
    weight: Vec<P>,
    bias: Vec<P>,
    grad_weight: Vec<P>,
    grad_bias: Vec<P>,
    mean: Vec<P>,
    rstd: Vec<P>,
}

impl<D: Element, P: Element> Case<D, P> {
    fn new(n: usize, channels: usize, sets: usize) -> Self {
        Case {
            x: values(n, 3, 0.5),
            grad: values(n, 100, 0.1),
            out: vec![D::default(); n],
            grad_input: vec![D::default(); n],
            weight: values(channels, 7, 0.3),
            bias: values(channels, 50, 0.0),
            grad_weight: vec![P::default(); channels],
            grad_bias: vec![P::default(); channels],
            mean: vec![P::default(); sets],
            rstd: vec![P::default(); sets],
        }
    }

    fn gradients(&mut self) -> NormGradients {
        NormGradients {
            input: Some(operand(&mut self.grad_input)),
            weight: Some(operand(&mut self.grad_weight)),
            bias: Some(operand(&mut self.grad_bias)),
        }
    }

    fn check(&self, name: &str, reference: &Reference, statistics: bool, tolerance: f64) {
        let (x, g) = (doubles(&self.x), doubles(&self.grad));
        let (w, b) = (doubles(&self.weight), doubles(&self.bias));
        let (out, mean, rstd) = reference.forward(&x, &w, &b);
        close(&format!("{name} output"), &self.out, &out, tolerance);
        if statistics {
            if reference.centred {
                close(&format!("{name} mean"), &self.mean, &mean, tolerance);
            }
            close(&format!("{name} rstd"), &self.rstd, &rstd, tolerance);
        }
        let (gx, gw, gb) = reference.backward(&g, &x, &w);
        let tolerance = (tolerance * 4.0).max(1e-7);
        close(&format!("{name} grad input"), &self.grad_input, &gx, tolerance);
        close(&format!("{name} grad weight"), &self.grad_weight, &gw, tolerance);
        if reference.centred {
            close(&format!("{name} grad bias"), &self.grad_bias, &gb, tolerance);
        }
    }
}

fn layer<D: Element, P: Element>(rows: usize, n: usize, tolerance: f64) {
    let mut c = Case::<D, P>::new(rows * n, n, rows);
    let mut reference = Reference {
        sets: (0..rows).map(|r| (r * n..(r + 1) * n).collect()).collect(),
        channel: (0..rows * n).map(|i| i % n).collect(),
        channels: n,
        centred: true,
        training: true,
    };
    // SAFETY: the buffers hold what the sizes say.
    unsafe {
        let (x, out, grad) = (operand(&mut c.x), operand(&mut c.out), operand(&mut c.grad));
        let (w, b) = (operand(&mut c.weight), operand(&mut c.bias));
        let (m, r) = (operand(&mut c.mean), operand(&mut c.rstd));
        layer_norm((rows, n), EPS, x, Some(w), Some(b), out, (Some(m), Some(r)));
        layer_norm_backward((rows, n), grad, x, (m, r), Some(w), c.gradients());
        c.check("layer norm", &reference, true, tolerance);
        reference.centred = false;
        c.bias.fill(P::default());
        rms_norm((rows, n), EPS, x, Some(w), out, Some(r));
        rms_norm_backward((rows, n), grad, x, r, Some(w), NormGradients { bias: None, ..c.gradients() });
        c.check("RMS norm", &reference, true, tolerance);
    }
}

#[test]
fn layer_and_rms_norm() {
    for (rows, n) in [
        (3, 5),
        (2, 129),
        (150, 7),
        (1, 200),
        (4, 1),
        (70, 1),
        (9, 33),
        (65, 13),
        (64, 64),
        (140, 31),
        (45, 63),
        (35, 65),
        (18, 100),
    ] {
        layer::<f64, f64>(rows, n, 1e-11);
        layer::<f32, f32>(rows, n, 3e-5);
        layer::<f16, f32>(rows, n, 4e-3);
        layer::<bf16, f32>(rows, n, 3e-2);
    }
    layer::<bf16, bf16>(3, 40, 5e-2);
    layer::<f32, f64>(3, 40, 3e-5);
}

/// Rows whose first elements are far from their mean, or hold or miss what is not finite.
#[test]
fn first_elements_that_say_little_of_a_row() {
    for n in [255, 256, 300, 1000, 5000] {
        let plain: Vec<f32> = values(n, 3, 0.5);
        let mut rows = vec![plain.clone(); 6];
        rows[0][..64].fill(1e4);
        rows[1][..80].fill(-3e6);
        rows[2] = (0..n).map(|i| i as f32).collect();
        rows[3].iter_mut().for_each(|x| *x += 8.0);
        rows[4].fill(-7.25);
        let mut x = rows.concat();
        let (mut out, mut mean, mut rstd) = (vec![0f32; 6 * n], [0f64; 6], [0f64; 6]);
        let statistics = (Some(operand(&mut mean)), Some(operand(&mut rstd)));
        // SAFETY: six rows, and a statistic of each.
        unsafe { layer_norm((6, n), EPS, operand(&mut x), None, None, operand(&mut out), statistics) };
        let sets = (0..6).map(|row| (row * n..row * n + n).collect()).collect();
        let reference = Reference { sets, channel: vec![0; 6 * n], channels: 1, centred: true, training: true };
        let (wanted, means, rstds) = reference.forward(&doubles(&x), &[1.0], &[0.0]);
        close("mean", &mean, &means, 1e-6);
        for (got, want) in rstd.iter().zip(&rstds) {
            assert!((got / want - 1.0).abs() < 1e-6, "{n}: {got} for {want}");
        }
        close("out", &out, &wanted, 2e-6);

        for (special, at) in [(f32::INFINITY, 0), (f32::INFINITY, n - 1), (f32::NEG_INFINITY, 100), (f32::NAN, n / 2)] {
            let mut x = plain.clone();
            x[at] = special;
            let (mut out, mut mean) = (vec![0f32; n], [0f64; 1]);
            // SAFETY: one row.
            unsafe {
                let (x, out, mean) = (operand(&mut x), operand(&mut out), operand(&mut mean));
                layer_norm((1, n), EPS, x, None, None, out, (Some(mean), None));
            }
            assert!(mean[0].to_bits() == f64::from(special).to_bits() || special.is_nan() && mean[0].is_nan());
            assert!(out.iter().all(|y| y.is_nan()), "{special} at {at} of {n}");
        }
    }
}

fn group<D: Element, P: Element>(batch: usize, channels: usize, spatial: usize, groups: usize, tolerance: f64) {
    let n = batch * channels * spatial;
    let per_group = channels / groups;
    for channels_last in [false, true] {
        let shape = GroupNormShape { batch, channels, spatial, groups, channels_last };
        let mut c = Case::<D, P>::new(n, channels, batch * groups);
        let channel = |i: usize| if channels_last { i % channels } else { i / spatial % channels };
        let set = |i: usize| i / (channels * spatial) * groups + channel(i) / per_group;
        let reference = Reference {
            sets: (0..batch * groups).map(|r| (0..n).filter(|&i| set(i) == r).collect()).collect(),
            channel: (0..n).map(channel).collect(),
            channels,
            centred: true,
            training: true,
        };
        // SAFETY: the buffers hold what the sizes say.
        unsafe {
            let (x, out, grad) = (operand(&mut c.x), operand(&mut c.out), operand(&mut c.grad));
            let (w, b) = (operand(&mut c.weight), operand(&mut c.bias));
            let (m, r) = (operand(&mut c.mean), operand(&mut c.rstd));
            group_norm(shape, EPS, x, Some(w), Some(b), out, (Some(m), Some(r)));
            group_norm_backward(shape, grad, x, (m, r), Some(w), c.gradients());
        }
        c.check("group norm", &reference, true, tolerance);
    }
}

#[test]
fn group_norms() {
    for (batch, channels, spatial, groups) in
        [(2, 6, 5, 3), (3, 4, 70, 2), (2, 3, 17, 3), (1, 66, 9, 6), (2, 10, 1, 5), (2, 1, 300, 1)]
    {
        group::<f64, f64>(batch, channels, spatial, groups, 1e-11);
        group::<f32, f32>(batch, channels, spatial, groups, 3e-5);
    }
    group::<f16, f32>(2, 4, 9, 1, 4e-3);
    group::<bf16, f32>(2, 4, 9, 2, 3e-2);
}

fn batch<D: Element, P: Element>(outer: usize, channels: usize, inner: usize, training: bool, tolerance: f64) {
    let shape = BatchNormShape { outer, channels, inner };
    let mut c = Case::<D, P>::new(outer * channels * inner, channels, channels);
    let channel: Vec<usize> = (0..outer * channels * inner).map(|i| i / inner % channels).collect();
    let reference = Reference {
        sets: (0..channels).map(|k| (0..channel.len()).filter(|&i| channel[i] == k).collect()).collect(),
        channel,
        channels,
        centred: true,
        training,
    };
    let mut variance = vec![P::default(); channels];
    // SAFETY: the buffers hold what the sizes say.
    unsafe {
        let (x, out, grad) = (operand(&mut c.x), operand(&mut c.out), operand(&mut c.grad));
        let (w, b) = (operand(&mut c.weight), operand(&mut c.bias));
        let (m, r, v) = (operand(&mut c.mean), operand(&mut c.rstd), operand(&mut variance));
        batch_norm_statistics(shape, x, m, v);
        batch_norm_invstd(channels, EPS, v, r);
        batch_norm(shape, x, (m, r), Some(w), Some(b), out);
        batch_norm_backward(shape, training, grad, x, (m, r), Some(w), c.gradients());
    }
    c.check("batch norm", &reference, true, tolerance);
}

#[test]
fn batch_norms() {
    for training in [true, false] {
        for (outer, channels, inner) in [(3, 4, 5), (2, 3, 77), (40, 3, 1), (300, 2, 1), (1, 2, 150), (7, 300, 1)] {
            batch::<f64, f64>(outer, channels, inner, training, 1e-11);
            batch::<f32, f32>(outer, channels, inner, training, 3e-5);
        }
        batch::<f16, f32>(2, 3, 20, training, 4e-3);
        batch::<bf16, f32>(20, 3, 1, training, 3e-2);
    }
}

#[test]
fn without_parameters_and_elements() {
    let mut x = [1.0f32, 3.0, 2.0, 6.0];
    let mut out = [0.0f32; 4];
    // SAFETY: both hold four elements; empty shapes touch none.
    unsafe {
        layer_norm((2, 2), 0.0, operand(&mut x), None, None, operand(&mut out), (None, None));
        assert_eq!(out, [-1.0, 1.0, -1.0, 1.0]);
        let (mut many, mut many_out) = ([1.0f32, 3.0, 2.0, 6.0].repeat(5), [0.0f32; 20]);
        layer_norm((10, 2), 0.0, operand(&mut many), None, None, operand(&mut many_out), (None, None));
        assert_eq!(many_out[..], [-1.0, 1.0].repeat(10)[..]);
        rms_norm((1, 4), 0.0, operand(&mut x), None, operand(&mut out), None);
        assert!((out[0] - 1.0 / 12.5f32.sqrt()).abs() < 1e-6);
        layer_norm((0, 2), 0.0, operand(&mut x), None, None, operand(&mut out), (None, None));
        layer_norm((2, 0), 0.0, operand(&mut x), None, None, operand(&mut out), (None, None));
        let empty = GroupNormShape { batch: 0, channels: 2, spatial: 3, groups: 2, channels_last: false };
        group_norm(empty, 0.0, operand(&mut x), None, None, operand(&mut out), (None, None));
        let empty = GroupNormShape { channels_last: true, ..empty };
        group_norm(empty, 0.0, operand(&mut x), None, None, operand(&mut out), (None, None));
        let mut grad_weight = [7.0f32; 2];
        let gradients = NormGradients { weight: Some(operand(&mut grad_weight)), ..Default::default() };
        let (g, m) = (operand(&mut x), operand(&mut out));
        batch_norm_backward(BatchNormShape { outer: 0, channels: 2, inner: 4 }, true, g, g, (m, m), None, gradients);
        assert_eq!(grad_weight, [0.0; 2]);
        // A large offset costs no accuracy: deviations are taken from the mean.
        let mut shifted = [1e6f32, 1e6 + 1.0, 1e6 + 2.0, 1e6 + 1.0];
        layer_norm((1, 4), 0.0, operand(&mut shifted), None, None, operand(&mut out), (None, None));
        assert!((out[2] - 2f32.sqrt()).abs() < 1e-5);
    }
}

/// Where results go.
#[derive(Clone, Copy, Debug)]
enum To {
    Memory,
    PastCaches,
    PastCachesJoined,
}

/// Doubles the elements of rows of `n`.
struct Put<T>(std::marker::PhantomData<T>);
impl<T: Float> Kernel for Put<T> {
    type Args = (*const T, *mut T, (usize, usize), To);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((x, out, (rows, n), to): Self::Args) {
        let mut joint = Joint::new();
        for row in 0..rows {
            // SAFETY: the caller's elements.
            unsafe {
                let (x, out) = (x.add(row * n), out.add(row * n));
                let past = match to {
                    To::Memory => None,
                    To::PastCaches => Past::if_streams(true, n),
                    To::PastCachesJoined => Some(Past { next: n, ask: x, joint: Some(&mut joint) }),
                };
                put_results::<I, T>(out, n, past, |i| *x.add(i) + *x.add(i));
            }
        }
        // SAFETY: the end of the last row.
        unsafe { joint.finish(out.add(rows * n)) };
        stream::finish();
    }
}

fn put<T: Float>() {
    const ROOM: usize = 850;
    let x: Vec<T> = values(ROOM, 1, 0.0);
    for level in Level::available() {
        for n in (0..70).chain([127, 128, 200, 250]) {
            for shift in 0..40 {
                for (rows, to) in [(1, To::Memory), (1, To::PastCaches), (1, To::PastCachesJoined)].into_iter().chain([
                    (3, To::PastCaches),
                    (2, To::PastCachesJoined),
                    (3, To::PastCachesJoined),
                ]) {
                    let mut out = vec![T::ONE; ROOM];
                    // SAFETY: room for as many rows.
                    unsafe { entry::<Put<T>>(level)((x.as_ptr(), out.as_mut_ptr().add(shift), (rows, n), to)) };
                    for (i, out) in out.iter().enumerate() {
                        let here = (shift..shift + rows * n).contains(&i);
                        let want = if here { x[i - shift] + x[i - shift] } else { T::ONE };
                        assert_eq!(
                            out.to_f64(),
                            want.to_f64(),
                            "{i} of {rows} of {n} from {shift} at {level:?}, {to:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn results_are_put_where_they_belong() {
    put::<f32>();
    put::<f64>();
}

/// Sums of distances and of their squares of as many elements as make whole vectors or not, from memory that ends there.
fn long<T: Float>(tolerance: f64) {
    let x: Vec<T> = values(3000, 3, 0.5);
    for level in Level::available() {
        for n in (LANES..4 * LANES).chain([1023, 1024, 1025, 1030, 2048, 3000]) {
            let (x, centre) = (&x[3000 - n..], T::from_f64(0.4));
            // SAFETY: `n` elements, `LANES` at least.
            let [squares, rest] = unsafe { entry::<LongDeviations<T>>(level)((x.as_ptr(), n, centre)) };
            let distances = || x.iter().map(|x| x.to_f64() - centre.to_f64());
            let (want, of_rest) = (distances().map(|d| d * d).sum::<f64>(), distances().sum::<f64>());
            assert!((squares - want).abs() <= tolerance * want, "{n} at {level:?}: {squares} for {want}");
            let most = distances().map(f64::abs).sum::<f64>();
            assert!((rest - of_rest).abs() <= tolerance * most, "{n} at {level:?}: {rest} for {of_rest}");
        }
    }
}

#[test]
fn distances_of_long_rows() {
    long::<f32>(3e-7);
    // (The sums that they are compared with are rounded, too.)
    long::<f64>(1e-14);
}

/// Rows of all lengths that are overlapped and some that are not, few and many, wherever they begin, in place, in caches and past
/// them, with parameters and without; some whose first elements are far from the mean, or that hold what is not finite. Nothing
/// else is written.
fn beside_each_other<E: Element>(tolerance: f64, of_statistics: f64) {
    let seven = E::from_f64(7.0);
    for n in [63, 64, 65, 100, 127, 128, 200, 300, 1000, 1024, 1025, 4096, 5000, 9001] {
        for (rows, shift) in [(1, 0), (2, 1), (3, 8), (4, 15), (5, 33), (64, 3), (65, 0), (67, 7), (131, 5)] {
            if rows * n > 200_000 {
                continue;
            }
            for (centred, in_place, parameters) in [(true, false, true), (true, true, false), (false, false, true)] {
                let end = shift + rows * n;
                let mut x: Vec<E> = values(end + 40, 1, 0.3);
                if rows > 3 {
                    let (far, level) = (shift + 2 * n, shift + n);
                    for i in 0..n {
                        x[far + i] = E::from_f64(if i < n - n / 8 { 1e-3 * i as f64 } else { 1e4 });
                    }
                    x[level..level + n].fill(E::from_f64(0.125));
                    x[end - n] = E::from_f64(f64::INFINITY);
                }
                let (mut w, mut b): (Vec<E>, Vec<E>) = (values(n, 7, 0.3), values(n, 50, 0.0));
                let reference = Reference {
                    sets: (0..rows).map(|r| (shift + r * n..shift + (r + 1) * n).collect()).collect(),
                    channel: (0..end + 40).map(|i| (i + n - shift % n) % n).collect(),
                    channels: n,
                    centred,
                    training: true,
                };
                let (ones, zeros) = (vec![1.0; n], vec![0.0; n]);
                let (weight, bias) = if parameters { (doubles(&w), doubles(&b)) } else { (ones, zeros.clone()) };
                let bias = if centred { bias } else { zeros };
                let (want, means, rstds) = reference.forward(&doubles(&x), &weight, &bias);
                let mut out = if in_place { x.clone() } else { vec![seven; end + 40] };
                let (mut mean, mut rstd) = (vec![0.0f32; rows], vec![0.0f32; rows]);
                let at = |v: &mut [E]| operand(&mut v[shift..]);
                let (to, from) = (at(&mut out), at(&mut x));
                let from = if in_place { to } else { from };
                let (w, b) = (parameters.then(|| operand(&mut w)), parameters.then(|| operand(&mut b)));
                let (m, r) = (operand(&mut mean), operand(&mut rstd));
                // SAFETY: all hold the rows, and may be the same.
                unsafe {
                    match centred {
                        true => layer_norm((rows, n), EPS, from, w, b, to, (Some(m), Some(r))),
                        false => rms_norm((rows, n), EPS, from, w, to, Some(r)),
                    }
                }
                let what = format!("{rows} of {n} from {shift}, centred {centred}, in place {in_place}");
                let finite = if rows > 3 { end - n } else { end };
                close(&what, &out[shift..finite], &want[shift..finite], tolerance);
                let known = if rows > 3 { rows - 1 } else { rows };
                close(&format!("{what}, rstd"), &rstd[..known], &rstds[..known], of_statistics);
                if centred {
                    close(&format!("{what}, mean"), &mean[..known], &means[..known], of_statistics);
                    let infinite = &out[finite..end];
                    assert!(rows <= 3 || infinite.iter().all(|y| y.to_f64().is_nan()), "{what}: infinity");
                }
                for i in (0..shift).chain(end..end + 40) {
                    assert_eq!(out[i], if in_place { x[i] } else { seven }, "{what}: {i} is not theirs");
                }
            }
        }
    }
}

#[test]
fn rows_beside_each_other() {
    beside_each_other::<f32>(3e-5, 3e-5);
    beside_each_other::<f16>(6e-4, 3e-5);
    beside_each_other::<bf16>(4.2e-3, 3e-5);
}

/// Gradients of rows of all lengths that are overlapped and some that are not, few and more than a piece, wherever they begin, in
/// place, in caches and past them, with parameters' and without, against those of `f64`. Nothing else is written.
fn gradients_beside_each_other<E: Element>(tolerance: f64) {
    let seven = E::from_f64(7.0);
    for n in [63, 64, 65, 100, 129, 300, 1000, 4096, 5000] {
        for (rows, shift) in [(1, 0), (2, 1), (3, 8), (4, 33), (130, 5), (300, 15)] {
            if rows * n > 100_000 {
                continue;
            }
            let end = shift + rows * n;
            let (grad, x): (Vec<E>, Vec<E>) = (values(end + 40, 9, 0.1), values(end + 40, 1, 0.3));
            let mut w: Vec<E> = values(n, 7, 0.3);
            let (mut mean, mut rstd): (Vec<f32>, Vec<f32>) = (values(rows, 3, 0.0), values(rows, 5, 2.0));
            let mut wide = [&grad, &x, &w].map(|v| doubles(v));
            let mut of_rows = [doubles(&mean), doubles(&rstd)];
            for (centred, parameters) in [(true, true), (true, false), (false, true)] {
                let (mut want, mut want_of) = (vec![0.0; end + 40], [vec![0.0; n], vec![0.0; n]]);
                let [of_weight, of_bias] = &mut want_of;
                // SAFETY: all hold the rows.
                unsafe {
                    let [g, x, w] = &mut wide;
                    let [m, r] = &mut of_rows;
                    let gradients = NormGradients {
                        input: Some(operand(&mut want[shift..])),
                        weight: Some(operand(of_weight)),
                        bias: centred.then(|| operand(of_bias)),
                    };
                    let (g, x, w, m, r) =
                        (operand(&mut g[shift..]), operand(&mut x[shift..]), operand(w), operand(m), operand(r));
                    match centred {
                        true => layer_norm_backward((rows, n), g, x, (m, r), Some(w), gradients),
                        false => rms_norm_backward((rows, n), g, x, r, Some(w), gradients),
                    }
                }
                for place in 0..3 {
                    let (mut grad, mut x) = (grad.clone(), x.clone());
                    let mut out = vec![seven; end + 40];
                    let (mut of_weight, mut of_bias) = (vec![0f32; n], vec![0f32; n]);
                    let [g, xs, o] = [&mut grad, &mut x, &mut out].map(|v| operand(&mut v[shift..]));
                    let to = [o, g, xs][place];
                    let gradients = NormGradients {
                        input: Some(to),
                        weight: parameters.then(|| operand(&mut of_weight)),
                        bias: (parameters && centred).then(|| operand(&mut of_bias)),
                    };
                    let (w, m, r) = (operand(&mut w), operand(&mut mean), operand(&mut rstd));
                    // SAFETY: all hold the rows; the output may be an input.
                    unsafe {
                        match centred {
                            true => layer_norm_backward((rows, n), g, xs, (m, r), Some(w), gradients),
                            false => rms_norm_backward((rows, n), g, xs, r, Some(w), gradients),
                        }
                    }
                    let what = format!("{rows} of {n} from {shift}, centred {centred}, to {place}");
                    let before = [&out, &grad, &x][place].clone();
                    close(&what, &before[shift..end], &want[shift..end], tolerance);
                    if parameters {
                        close(&format!("{what}, weight"), &of_weight, &want_of[0], 1e-4);
                        close(&format!("{what}, bias"), &of_bias, &want_of[1], 1e-4);
                    }
                    if place == 0 {
                        for i in (0..shift).chain(end..end + 40) {
                            assert_eq!(out[i], seven, "{what}: {i} is not theirs");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn gradients_of_rows_beside_each_other() {
    gradients_beside_each_other::<f32>(3e-5);
    gradients_beside_each_other::<f16>(6e-4);
    gradients_beside_each_other::<bf16>(4.2e-3);
}
