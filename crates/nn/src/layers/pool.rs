//! Pooling.

use crate::{Forward, Module};
use flambeau::{Error, Result, Tensor};

/// How a window moves over `N` dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions<const N: usize> {
    /// Steps between windows; the kernel's size where `None`.
    pub stride: Option<[i64; N]>,
    /// Places added around the input.
    pub padding: [i64; N],
    /// Steps between elements of a window (maxima only).
    pub dilation: [i64; N],
    /// Whether windows may reach over the end.
    pub ceil_mode: bool,
    /// Whether the places around count in averages.
    pub count_include_pad: bool,
    /// What averages divide by instead of the window's size (not in one dimension).
    pub divisor_override: Option<i64>,
}

impl<const N: usize> Default for PoolOptions<N> {
    fn default() -> Self {
        PoolOptions {
            stride: None,
            padding: [0; N],
            dilation: [1; N],
            ceil_mode: false,
            count_include_pad: true,
            divisor_override: None,
        }
    }
}

/// An error unless operators of this many dimensions exist.
fn check_dims<const N: usize>() -> Result<()> {
    if (1..=3).contains(&N) { Ok(()) } else { Err(Error::value(format!("pooling has 1, 2 or 3 dimensions, not {N}"))) }
}

/// Modules of plain fields, in 1, 2 and 3 dimensions.
macro_rules! pooling {
    ($(
        $(#[doc = $doc:expr])* $name:ident, $one:ident $two:ident $three:ident { $($(#[$meta:meta])* $field:ident: $type:ty),* }
        |$self:ident, $x:ident| $call:expr;
    )*) => { $(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Module)]
        pub struct $name<const N: usize> {
            $($(#[$meta])* $field: $type,)*
        }
        #[doc = concat!("[`", stringify!($name), "`] over (batch, channels, length).")]
        pub type $one = $name<1>;
        #[doc = concat!("[`", stringify!($name), "`] over (batch, channels, height, width).")]
        pub type $two = $name<2>;
        #[doc = concat!("[`", stringify!($name), "`] over (batch, channels, depth, height, width).")]
        pub type $three = $name<3>;
        impl<const N: usize> Forward for $name<N> {
            fn forward(&$self, $x: &Tensor) -> Result<Tensor> {
                check_dims::<N>()?;
                $call
            }
        }
    )* };
}
pooling! {
    /// The maximum of every window.
    MaxPool, MaxPool1d MaxPool2d MaxPool3d { kernel: [i64; N], #[module(skip)] options: PoolOptions<N> } |self, x| {
        let PoolOptions { padding, dilation, ceil_mode, .. } = &self.options;
        let (kernel, stride) = (&self.kernel, &self.stride());
        match N {
            1 => x.max_pool1d(kernel, stride, padding, dilation, *ceil_mode),
            2 => x.max_pool2d(kernel, stride, padding, dilation, *ceil_mode),
            _ => x.max_pool3d(kernel, stride, padding, dilation, *ceil_mode),
        }
    };
    /// The average of every window.
    AvgPool, AvgPool1d AvgPool2d AvgPool3d { kernel: [i64; N], #[module(skip)] options: PoolOptions<N> } |self, x| {
        let &PoolOptions { ref padding, ceil_mode, count_include_pad, divisor_override, .. } = &self.options;
        let (kernel, stride) = (&self.kernel, &self.stride());
        match N {
            1 => x.avg_pool1d(kernel, stride, padding, ceil_mode, count_include_pad),
            2 => x.avg_pool2d(kernel, stride, padding, ceil_mode, count_include_pad, divisor_override),
            _ => x.avg_pool3d(kernel, stride, padding, ceil_mode, count_include_pad, divisor_override),
        }
    };
    /// The `norm_type`-norm of every window.
    LPPool, LPPool1d LPPool2d LPPool3d { norm_type: f64, kernel: [i64; N], #[module(skip)] options: PoolOptions<N> } |self, x| {
        let size: i64 = self.kernel.iter().product();
        let averages = AvgPool { kernel: self.kernel, options: self.options }.forward(&x.pow(self.norm_type)?)?;
        averages.mul(size as f64)?.pow(1.0 / self.norm_type)
    };
    /// Averages of as many windows as the output is to have places.
    AdaptiveAvgPool, AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d { output: [i64; N] } |self, x| match N {
        1 => x.adaptive_avg_pool1d(&self.output),
        2 => x.adaptive_avg_pool2d(&self.output),
        _ => x.adaptive_avg_pool3d(&self.output),
    };
    /// Maxima of as many windows as the output is to have places.
    AdaptiveMaxPool, AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d { output: [i64; N] } |self, x| match N {
        1 => Ok(x.adaptive_max_pool1d(&self.output)?.0),
        2 => Ok(x.adaptive_max_pool2d(&self.output)?.0),
        _ => Ok(x.adaptive_max_pool3d(&self.output)?.0),
    };
}

macro_rules! windows {
    ($($name:ident)*) => { $(
        impl<const N: usize> $name<N> {
            /// Windows of the given size, side by side.
            #[must_use]
            pub fn new(kernel: [i64; N]) -> Self {
                Self::with(kernel, PoolOptions::default())
            }
            /// Windows of the given size that move as `options` say.
            #[must_use]
            pub fn with(kernel: [i64; N], options: PoolOptions<N>) -> Self {
                $name { kernel, options }
            }
            fn stride(&self) -> [i64; N] {
                self.options.stride.unwrap_or(self.kernel)
            }
        }
    )* };
}
windows! { MaxPool AvgPool }

impl<const N: usize> MaxPool<N> {
    /// The maxima, and where each stood in its plane: what [`MaxUnpool`] takes.
    ///
    /// # Errors
    /// As [`Forward::forward`].
    pub fn forward_with_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        check_dims::<N>()?;
        let PoolOptions { padding, dilation, ceil_mode, .. } = &self.options;
        let (kernel, stride) = (&self.kernel, &self.stride());
        match N {
            1 => x.max_pool1d_with_indices(kernel, stride, padding, dilation, *ceil_mode),
            2 => x.max_pool2d_with_indices(kernel, stride, padding, dilation, *ceil_mode),
            _ => x.max_pool3d_with_indices(kernel, stride, padding, dilation, *ceil_mode),
        }
    }
}

impl<const N: usize> LPPool<N> {
    /// Norms of windows of the given size that move as the stride and `ceil_mode` of `options` say.
    #[must_use]
    pub fn new(norm_type: f64, kernel: [i64; N], options: PoolOptions<N>) -> Self {
        LPPool { norm_type, kernel, options }
    }
}

macro_rules! adaptive {
    ($($name:ident)*) => { $(
        impl<const N: usize> $name<N> {
            /// To the given sizes.
            #[must_use]
            pub fn new(output: [i64; N]) -> Self {
                $name { output }
            }
        }
    )* };
}
adaptive! { AdaptiveAvgPool AdaptiveMaxPool }

/// Puts maxima back where a [`MaxPool`] found them, with zeros between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxUnpool<const N: usize> {
    kernel: [i64; N],
    stride: [i64; N],
    padding: [i64; N],
}

impl<const N: usize> MaxUnpool<N> {
    /// The way back through `pool`.
    #[must_use]
    pub fn of(pool: &MaxPool<N>) -> Self {
        MaxUnpool { kernel: pool.kernel, stride: pool.stride(), padding: pool.options.padding }
    }

    /// From the maxima and their places to `output_size`, or to the smallest size that gives as many windows.
    ///
    /// # Errors
    /// When the sizes do not fit.
    pub fn forward(&self, x: &Tensor, indices: &Tensor, output_size: Option<[i64; N]>) -> Result<Tensor> {
        check_dims::<N>()?;
        let spatial = x.sizes().iter().rev().take(N).rev();
        let mut smallest = self.kernel;
        for (d, size) in spatial.enumerate() {
            smallest[d] = (size - 1) * self.stride[d] + self.kernel[d] - 2 * self.padding[d];
        }
        let size = output_size.unwrap_or(smallest);
        match N {
            1 => {
                let (x, indices) = (x.unsqueeze(-1)?, indices.unsqueeze(-1)?);
                x.max_unpool2d(&indices, &[size[0], 1])?.squeeze_dim(-1)
            }
            2 => x.max_unpool2d(indices, &size),
            _ => x.max_unpool3d(indices, &size, &self.stride, &self.padding),
        }
    }
}
