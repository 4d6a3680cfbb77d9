//! Numbers at regular distances, and functions of them.

use crate::math::{Float, Isa, Kernel, run, special};
use flambeau_base::Element;
use std::marker::PhantomData;

/// `base + step * (from + direction * i)`, each step in double precision, for `i` from 0 up.
#[derive(Clone, Copy)]
pub struct Line {
    /// What is added to.
    pub base: f64,
    /// The distance.
    pub step: f64,
    /// The first place, a whole number.
    pub from: f64,
    /// 1, or -1 to count down.
    pub direction: f64,
}

impl Line {
    #[inline(always)]
    fn at(&self, i: usize) -> f64 {
        // A small counter converts in vectors.
        self.base + self.step * (self.from + self.direction * f64::from(i as i32))
    }
}

/// What becomes of the numbers of a [`Line`].
#[derive(Clone, Copy)]
pub enum Of {
    /// Nothing.
    Itself,
    /// This number to their power.
    PowerOf(f64),
    /// Kaiser's window of a shape, whose greatest value is 1, for numbers from -1 to 1.
    Kaiser(f64),
}

/// Writes numbers of a line, or a function of them. At most 2^31 of them.
pub fn progression<T: Float + Element>(line: Line, of: Of, out: &mut [T]) {
    // SAFETY: slices.
    unsafe { run::<Progression<'_, T>>((line, of, out)) }
}

struct Progression<'a, T>(PhantomData<&'a T>);

impl<'a, T: Float + Element> Kernel for Progression<'a, T> {
    type Args = (Line, Of, &'a mut [T]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((line, of, out): Self::Args) {
        match of {
            Of::Itself => out.iter_mut().enumerate().for_each(|(i, x)| *x = T::from_f64(line.at(i))),
            Of::PowerOf(base) => {
                out.iter_mut().enumerate().for_each(|(i, x)| *x = T::from_f64(Float::pow::<I>(base, line.at(i))));
            }
            Of::Kaiser(shape) => {
                let top = special::i0(shape);
                out.iter_mut().enumerate().for_each(|(i, x)| {
                    let t = line.at(i);
                    let rest = 1.0 - t * t;
                    let rest = if rest > 0.0 { rest } else { 0.0 };
                    *x = T::from_f64(special::i0_finite::<I>(shape * rest.sqrt()) / top);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_functions_of_them() {
        let line = Line { base: 1.0, step: 0.5, from: 2.0, direction: 1.0 };
        let mut out = [0.0f32; 3];
        progression(line, Of::Itself, &mut out);
        assert_eq!(out, [2.0, 2.5, 3.0]);
        progression(Line { direction: -1.0, ..line }, Of::Itself, &mut out);
        assert_eq!(out, [2.0, 1.5, 1.0]);
        progression(Line { step: 1.0, ..line }, Of::PowerOf(2.0), &mut out);
        assert_eq!(out, [8.0, 16.0, 32.0]);
        progression(Line { base: -1.0, step: 1.0, from: 0.0, direction: 1.0 }, Of::Kaiser(12.0), &mut out);
        assert_eq!((out[1], out[0], out[2]), (1.0, (1.0 / special::i0(12.0)) as f32, (1.0 / special::i0(12.0)) as f32));
    }
}
