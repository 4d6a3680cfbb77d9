//! Generic kernels, compiled here for the types that they are called with.
//!
//! What is generic is compiled by the crate that calls it, with that crate's settings: here kernels get the optimisations
//! that they were measured with, and they are compiled once.

use crate::distance::Pairs;
use crate::gemm::Operand;
use crate::math::Float;
use crate::resize::Taps;
use crate::rnn::{Gradients, Layer, Results, Saved};
use crate::segment::Fold;
use crate::{distance, gate, resize, rnn, segment};
use flambeau_base::Element;
use std::ops::Range;

macro_rules! compiled {
    ($($module:ident::$name:ident($($arg:ident: $ty:ty),*);)*) => {
        /// The real types that kernels compute with, `f32` and `f64`, and the kernels that are compiled for them.
        pub trait Real: Float + Element + Operand {
            $(
                #[doc = concat!("See [`", stringify!($module), "`](crate::", stringify!($module), ").")]
                fn $name($($arg: $ty),*);
            )*
        }
        compiled! { @impl f32 { $($module::$name($($arg: $ty),*);)* } }
        compiled! { @impl f64 { $($module::$name($($arg: $ty),*);)* } }
    };
    (@impl $t:ty { $($module:ident::$name:ident($($arg:ident: $ty:ty),*);)* }) => {
        impl Real for $t {
            $(
                fn $name($($arg: $ty),*) {
                    $module::$name::<$t>($($arg),*)
                }
            )*
        }
    };
}

compiled! {
    distance::distances(pairs: Pairs, width: usize, p: f64, x: &[Self], y: &[Self], out: &mut [Self]);
    distance::distances_backward(
        pairs: Pairs, width: usize, p: f64, x: &[Self], y: &[Self], by: (&[Self], &[Self]), out: &mut [Self]
    );
    gate::glu_backward(width: usize, g: &[Self], x: &[Self], out: &mut [Self]);
    resize::resize(taps: Taps<'_>, sizes: (usize, usize), x: &[Self], out: &mut [Self]);
    rnn::lstm(width: usize, gates: &[Self], cell: &[Self], hidden: &mut [Self], kept: &mut [Self]);
    rnn::lstm_backward(
        width: usize, by: [Option<&[Self]>; 2], gates: &[Self], cell: &[Self], g_gates: &mut [Self], g_cell: &mut [Self]
    );
    rnn::layer_forward(layer: &Layer<'_, Self>, results: Results<'_, Self>);
    rnn::layer_backward(layer: &Layer<'_, Self>, saved: &Saved<'_, Self>, by: Gradients<'_, Self>);
    segment::fold_segments(
        how: Fold, segments: &[Range<usize>], sizes: (usize, usize, usize), start: Self, x: &[Self], out: &mut [Self]
    );
}
