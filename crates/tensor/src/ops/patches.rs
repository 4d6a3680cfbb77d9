//! Patches of images as columns, and columns added back to images.

use crate::autograd::{Forward, Geometry};
use crate::dims::Dims;
use crate::{Body, Error, Op, Result, Tensor, backward, ensure, sample};

/// Which patches of an image there are: `[height, width]` each.
struct Patches {
    kernel: [i64; 2],
    dilation: [i64; 2],
    padding: [i64; 2],
    stride: [i64; 2],
}

fn pair(name: &str, values: &[i64]) -> Result<[i64; 2]> {
    match *values {
        [h, w] => Ok([h, w]),
        _ => Err(Error::runtime(format!("It is expected {name} equals to 2, but got size {}", values.len()))),
    }
}

impl Patches {
    fn of(kernel: &[i64], dilation: &[i64], padding: &[i64], stride: &[i64]) -> Result<Patches> {
        let p = Patches {
            kernel: pair("kernel_size", kernel)?,
            dilation: pair("dilation", dilation)?,
            padding: pair("padding", padding)?,
            stride: pair("stride", stride)?,
        };
        for (what, least, must, [h, w]) in [
            ("kernel size", 1, "greater than zero, but got kernel", p.kernel),
            ("dilation", 1, "greater than zero, but got dilation", p.dilation),
            ("padding", 0, "non-negative, but got pad", p.padding),
            ("stride", 1, "greater than zero, but got stride", p.stride),
        ] {
            let prefix = must.rsplit(' ').next().unwrap_or(must);
            ensure!(h >= least && w >= least, "{what} should be {must}_height: {h} {prefix}_width: {w}");
        }
        Ok(p)
    }

    /// How many patches an image has along an axis; below 1 when they do not fit.
    fn count(&self, axis: usize, size: i64) -> i64 {
        let (k, d, p, s) = (self.kernel[axis], self.dilation[axis], self.padding[axis], self.stride[axis]);
        let room = i128::from(size) + 2 * i128::from(p) - i128::from(d) * (i128::from(k) - 1) - 1;
        (room.div_euclid(i128::from(s)) + 1).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    fn described(&self) -> String {
        let [k, d, p] = [self.kernel, self.dilation, self.padding].map(|[h, w]| format!("({h}, {w})"));
        format!("kernel_size={k}, dilation={d}, padding={p}")
    }

    /// The images' rows or columns that position `k` of the patches covers, in padded coordinates.
    fn slice(&self, axis: usize, k: i64, count: i64) -> (Option<i64>, Option<i64>, i64) {
        let start = k * self.dilation[axis];
        (Some(start), Some(start + (count - 1) * self.stride[axis] + 1), self.stride[axis])
    }
}

fn im2col_any(x: &Tensor, kernel: &[i64], dilation: &[i64], padding: &[i64], stride: &[i64]) -> Result<Tensor> {
    let p = Patches::of(kernel, dilation, padding, stride)?;
    let rest_filled = x.dim() > 0 && x.sizes()[1..].iter().all(|s| *s > 0);
    ensure!(
        (x.dim() == 3 && x.numel() > 0) || (x.dim() == 4 && rest_filled),
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {:?}",
        x.sizes()
    );
    let at = x.dim() - 3;
    let [channels, height, width] = [x.sizes()[at], x.sizes()[at + 1], x.sizes()[at + 2]];
    let (rows, columns) = (p.count(0, height), p.count(1, width));
    ensure!(
        rows >= 1 && columns >= 1,
        "Given input with spatial size ({height}, {width}), {}, calculated shape of the array of sliding blocks as ({rows}, \
         {columns}), but its components must be at least one.",
        p.described()
    );
    let [ph, pw] = p.padding;
    let padded = if ph + pw > 0 { x.constant_pad_nd(&[pw, pw, ph, ph], 0)? } else { x.clone() };
    let (mut sizes, mut strides) = (Dims::from_slice(&padded.sizes()[..at]), Dims::from_slice(&padded.strides()[..at]));
    let [sc, sh, sw] = [padded.strides()[at], padded.strides()[at + 1], padded.strides()[at + 2]];
    sizes.extend([channels, p.kernel[0], p.kernel[1], rows, columns]);
    // Of a single window the stride may be anything.
    let steps = [(p.dilation[0], sh), (p.dilation[1], sw), (p.stride[0], sh), (p.stride[1], sw)];
    strides.push(sc);
    strides.extend(steps.map(|(n, stride)| n.saturating_mul(stride)));
    let windows = padded.as_strided(&sizes, &strides, Some(padded.storage_offset()))?;
    let mut shape = Dims::from_slice(&x.sizes()[..at]);
    shape.extend([channels * p.kernel[0] * p.kernel[1], rows * columns]);
    windows.clone_in(crate::MemoryFormat::Contiguous)?.view(&shape)
}

op! {
    /// The patches of images (N, C, H, W) as columns: (N, C kernel, patches).
    im2col: "im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
        Out OUT: "im2col.out(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(im2col_any; x, kernel, dilation, padding, stride));
    derivative: backward! {
        self_(g, self_: Geometry, kernel_size: Dims, dilation: Dims, padding: Dims, stride: Dims) =>
            g.col2im(&self_.sizes[self_.dim() - 2..], &kernel_size, &dilation, &padding, &stride)?
    };
    forward: Forward::Linear;
    samples: |m| vec![
        sample![m.any(&[2, 2, 5, 6]), vec![2i64, 3], vec![1i64, 1], vec![1i64, 0], vec![2i64, 1]],
        sample![m.any(&[2, 5, 6]), vec![2i64, 2], vec![2i64, 1], vec![0i64, 0], vec![1i64, 1]],
    ];
    fn im2col(&self, kernel_size: &[i64], dilation: &[i64], padding: &[i64], stride: &[i64]) -> Tensor
        [self, kernel_size, dilation, padding, stride];
}

fn col2im_any(x: &Tensor, output: &[i64], kernel: &[i64], dilation: &[i64], padding: &[i64], stride: &[i64]) -> Result<Tensor> {
    let [height, width] = pair("output_size", output)?;
    let p = Patches::of(kernel, dilation, padding, stride)?;
    let filled = x.dim() >= 2 && x.sizes()[x.dim() - 2..].iter().all(|s| *s > 0);
    ensure!(
        filled && x.dim() <= 3,
        "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but \
         got: {:?}",
        x.sizes()
    );
    let [kh, kw] = p.kernel;
    let at = x.dim() - 2;
    let (planes, length) = (x.sizes()[at], x.sizes()[at + 1]);
    let patch = kh.checked_mul(kw).ok_or_else(|| Error::runtime("col2im: kernel_size is too large"))?;
    ensure!(
        planes % patch == 0,
        "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={planes} and \
         kernel_size=({kh}, {kw})."
    );
    let (rows, columns) = (p.count(0, height), p.count(1, width));
    let given = format!("Given output_size=({height}, {width}), {}, stride=({}, {})", p.described(), p.stride[0], p.stride[1]);
    let blocks = i128::from(rows) * i128::from(columns);
    ensure!(
        i128::from(length) == blocks,
        "{given}, expected size of input's dimension 2 to match the calculated number of sliding blocks {rows} * {columns} = \
         {blocks}, but got input.size(2)={length}."
    );
    ensure!(
        rows >= 1 && columns >= 1,
        "{given}, expected size of input's dimension 2 to match the calculated number of sliding blocks {rows} * {columns} = \
         {blocks}, but got input.size(2)={length}."
    );
    ensure!(height >= 1 && width >= 1, "Expected output spatial size to be positive, but got: output_size=({height}, {width}).");
    let [ph, pw] = p.padding;
    let mut shape = Dims::from_slice(&x.sizes()[..at]);
    let lead = shape.len() as i64;
    shape.extend([planes / patch, kh, kw, rows, columns]);
    let columns_of = x.reshape(&shape)?;
    shape.truncate(at + 1);
    let padded = |size: i64, pad: i64| size.checked_add(pad.checked_mul(2)?);
    let whole = padded(height, ph).zip(padded(width, pw));
    let (h, w) = whole.ok_or_else(|| Error::runtime("col2im: padding is too large"))?;
    shape.extend([h, w]);
    // Sums of halves are kept in single precision.
    let wide = x.dtype().compute();
    let out = Tensor::zeros(&shape, (wide, x.device()))?;
    for i in 0..kh {
        let (start, end, step) = p.slice(0, i, rows);
        let across = out.slice(-2, start, end, step)?;
        for j in 0..kw {
            let (start, end, step) = p.slice(1, j, columns);
            across.slice(-1, start, end, step)?.add_(&columns_of.select(lead + 1, i)?.select(lead + 1, j)?)?;
        }
    }
    let image = out.slice(-2, Some(ph), Some(ph + height), 1)?.slice(-1, Some(pw), Some(pw + width), 1)?;
    image.to_dtype(x.dtype())?.contiguous()
}

op! {
    /// Columns (N, C kernel, patches) added up where their patches are in images (N, C, H, W).
    col2im: "col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
        Out OUT: "col2im.out(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(col2im_any; x, output, kernel, dilation, padding, stride));
    derivative: backward! {
        self_(g, kernel_size: Dims, dilation: Dims, padding: Dims, stride: Dims) => g.im2col(&kernel_size, &dilation, &padding, &stride)?
    };
    forward: Forward::Linear;
    samples: |m| vec![
        sample![m.any(&[2, 12, 18]), vec![5i64, 6], vec![2i64, 3], vec![1i64, 1], vec![1i64, 1], vec![2i64, 1]],
        sample![m.any(&[8, 15]), vec![5i64, 6], vec![2i64, 2], vec![2i64, 1], vec![0i64, 0], vec![1i64, 1]],
    ];
    ulp: 8.0;
    fn col2im(&self, output_size: &[i64], kernel_size: &[i64], dilation: &[i64], padding: &[i64], stride: &[i64]) -> Tensor
        [self, output_size, kernel_size, dilation, padding, stride];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[col2im::ALL, im2col::ALL];
