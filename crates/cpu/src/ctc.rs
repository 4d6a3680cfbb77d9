//! Connectionist temporal classification of one sample: its forward variables, and its gradient. The states of a step
//! depend on the step before only, so that a step is a loop over states, which vectorises.

use crate::math::{Float, Isa, Kernel, Level, run, select};

const NEVER: f64 = f64::NEG_INFINITY;

/// A sample: log-probabilities by step and label, and the label of each state (its own ones with blanks around them).
#[derive(Clone, Copy)]
pub struct Sample<'a> {
    /// Those of all samples, from this one's first on.
    pub log_probabilities: &'a [f64],
    /// From one step to the next.
    pub stride: usize,
    /// How many labels there are.
    pub labels: usize,
    /// How many steps count.
    pub steps: usize,
    /// The label of each state.
    pub states: &'a [usize],
    /// 0 for states that may be reached from two before, minus infinity for others.
    pub skips: &'a [f64],
}

impl Sample<'_> {
    fn row(&self, step: usize) -> &[f64] {
        &self.log_probabilities[step * self.stride..][..self.labels]
    }
}

/// `log(exp(a) + exp(b) + exp(c))`.
#[inline(always)]
fn log_sum<I: Isa>(a: f64, b: f64, c: f64) -> f64 {
    let most = select(b > a, b, a);
    let most = select(c > most, c, most);
    let most = select(most == NEVER, 0.0, most);
    let sum = Float::exp::<I>(a - most) + Float::exp::<I>(b - most) + Float::exp::<I>(c - most);
    Float::log::<I>(sum) + most
}

/// The negative log-probability of a sample. `alphas` becomes, by step and state, the logarithm of what all alignments up
/// to there are worth; its rows are `width` long, of which the sample's states come first, and the others are left alone.
pub fn forward(sample: Sample<'_>, alphas: &mut [f64], width: usize) -> f64 {
    // SAFETY: slices.
    unsafe { run::<Forward<'_>>((sample, alphas, width)) }
}

struct Forward<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> Kernel for Forward<'a> {
    type Args = (Sample<'a>, &'a mut [f64], usize);
    type Output = f64;
    const HIGHEST: Level = Level::Avx2;

    #[inline(always)]
    unsafe fn run<I: Isa>((sample, alphas, width): Self::Args) -> f64 {
        let n = sample.states.len();
        if sample.steps == 0 {
            return if n == 1 { 0.0 } else { f64::INFINITY };
        }
        // Two states that nothing reaches stand before the first.
        let (mut before, mut now) = (vec![NEVER; n + 2], vec![NEVER; n + 2]);
        for step in 0..sample.steps {
            let row = sample.row(step);
            if step == 0 {
                (0..n.min(2)).for_each(|s| now[s + 2] = row[sample.states[s]]);
            } else {
                let (b0, b1, b2) = (&before[2..], &before[1..n + 1], &before[..n]);
                for ((((now, b0), b1), b2), skip) in now[2..].iter_mut().zip(b0).zip(b1).zip(b2).zip(sample.skips) {
                    *now = log_sum::<I>(*b0, *b1, *b2 + *skip);
                }
                now[2..].iter_mut().zip(sample.states).for_each(|(now, label)| *now += row[*label]);
            }
            alphas[step * width..][..n].copy_from_slice(&now[2..]);
            std::mem::swap(&mut before, &mut now);
        }
        -log_sum::<I>(before[n + 1], if n > 1 { before[n] } else { NEVER }, NEVER)
    }
}

/// Writes the gradient by the log-probabilities, through the softmax they come from, times `g`: `out` lies as they do.
pub fn backward(sample: Sample<'_>, alphas: &[f64], width: usize, loss: f64, g: f64, out: &mut [f64]) {
    // SAFETY: slices.
    unsafe { run::<Backward<'_>>((sample, alphas, width, loss, g, out)) }
}

struct Backward<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> Kernel for Backward<'a> {
    type Args = (Sample<'a>, &'a [f64], usize, f64, f64, &'a mut [f64]);
    type Output = ();
    const HIGHEST: Level = Level::Avx2;

    #[inline(always)]
    unsafe fn run<I: Isa>((sample, alphas, width, loss, g, out): Self::Args) {
        let n = sample.states.len();
        // Two states that are never left stand behind the last.
        let (mut after, mut now) = (vec![NEVER; n + 2], vec![NEVER; n + 2]);
        let mut worth = vec![0.0; n];
        let mut through = vec![0.0; sample.labels];
        for step in (0..sample.steps).rev() {
            let row = sample.row(step);
            if step + 1 == sample.steps {
                (n.saturating_sub(2)..n).for_each(|s| now[s] = row[sample.states[s]]);
            } else {
                let skips = sample.skips.iter().skip(2).chain([&NEVER; 2]);
                let (a0, a1, a2) = (&after[..n], &after[1..n + 1], &mut worth[..]);
                for ((a2, after), skip) in a2.iter_mut().zip(&after[2..]).zip(skips) {
                    *a2 = *after + *skip;
                }
                for (((now, a0), a1), a2) in now[..n].iter_mut().zip(a0).zip(a1).zip(&*a2) {
                    *now = log_sum::<I>(*a0, *a1, *a2);
                }
                now[..n].iter_mut().zip(sample.states).for_each(|(now, label)| *now += row[*label]);
            }
            // By label: what all alignments through it at this step are worth, as a share of the best state's.
            let alpha = &alphas[step * width..][..n];
            worth.iter_mut().zip(alpha).zip(&now).for_each(|((w, a), b)| *w = *a + *b);
            let most = worth.iter().copied().fold(NEVER, f64::max);
            let most = if most == NEVER { 0.0 } else { most };
            worth.iter_mut().for_each(|w| *w = Float::exp::<I>(*w - most));
            through.fill(0.0);
            worth.iter().zip(sample.states).for_each(|(w, label)| through[*label] += *w);
            let out = &mut out[step * sample.stride..][..sample.labels];
            for ((out, lp), sum) in out.iter_mut().zip(row).zip(&through) {
                let share = Float::exp::<I>(Float::log::<I>(*sum) + (most + loss) - *lp);
                *out = (Float::exp::<I>(*lp) - share) * g;
            }
            std::mem::swap(&mut after, &mut now);
        }
    }
}
