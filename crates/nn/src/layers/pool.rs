//! Pooling and reshaping.

use crate::{Forward, Module};
use flambeau::{Result, Tensor};

/// How a window moves over (height, width).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Steps between windows; the kernel's size where `None`.
    pub stride: Option<[i64; 2]>,
    /// Places added around the input.
    pub padding: [i64; 2],
    /// Steps between elements of a window (maxima only).
    pub dilation: [i64; 2],
    /// Whether windows may reach over the end.
    pub ceil_mode: bool,
    /// Whether the places around count in averages.
    pub count_include_pad: bool,
}

impl Default for PoolOptions {
    fn default() -> Self {
        PoolOptions { stride: None, padding: [0, 0], dilation: [1, 1], ceil_mode: false, count_include_pad: true }
    }
}

macro_rules! pooling {
    ($($(#[doc = $doc:expr])* $name:ident |$x:ident, $kernel:ident, $stride:ident, $o:ident| $call:expr;)*) => { $(
        $(#[doc = $doc])*
        #[derive(Clone)]
        pub struct $name {
            kernel: [i64; 2],
            options: PoolOptions,
        }
        impl $name {
            /// Windows of the given size, side by side.
            #[must_use]
            pub fn new(kernel: [i64; 2]) -> Self {
                Self::with(kernel, PoolOptions::default())
            }
            /// Windows of the given size that move as `options` say.
            #[must_use]
            pub fn with(kernel: [i64; 2], options: PoolOptions) -> Self {
                $name { kernel, options }
            }
        }
        impl crate::walk::Walk for $name {
            fn walk(&self, _path: &mut crate::Path, _visit: &mut dyn FnMut(&str, crate::Leaf<'_>)) {}
            fn walk_mut(&mut self, _visit: &mut dyn FnMut(crate::LeafMut<'_>) -> Result<()>) -> Result<()> {
                Ok(())
            }
        }
        impl Module for $name {}
        impl Forward for $name {
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                let ($kernel, $o) = (&self.kernel, &self.options);
                let $stride = &$o.stride.unwrap_or(*$kernel);
                $call
            }
        }
    )* };
}
pooling! {
    /// The maximum of every window.
    MaxPool2d |x, kernel, stride, o| x.max_pool2d(kernel, stride, &o.padding, &o.dilation, o.ceil_mode);
    /// The average of every window.
    AvgPool2d |x, kernel, stride, o| {
        x.avg_pool2d(kernel, stride, &o.padding, o.ceil_mode, o.count_include_pad, None)
    };
}

/// Several dimensions made one.
#[derive(Clone, Module)]
pub struct Flatten {
    /// The first of them.
    pub start_dim: i64,
    /// The last of them.
    pub end_dim: i64,
}

impl Default for Flatten {
    /// All but the first dimension.
    fn default() -> Self {
        Flatten { start_dim: 1, end_dim: -1 }
    }
}

impl Forward for Flatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.flatten(self.start_dim, self.end_dim)
    }
}
