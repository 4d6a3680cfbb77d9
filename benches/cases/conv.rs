//! Convolution, pooling, normalisation over images, resizing and padding.

use crate::inputs::{channels_last, normal, normal_of};
use crate::{Group, ok};
use flambeau::DType::{self, BF16, F32, F64};
use flambeau::{MemoryFormat, Tensor};
use flambeau_nn::{Forward, Upsample, UpsampleMode, UpsampleTo};

/// A convolution of square images with square kernels, with a bias.
#[derive(Clone, Copy)]
struct Conv {
    batch: i64,
    inputs: i64,
    size: i64,
    outputs: i64,
    kernel: i64,
    stride: i64,
    padding: i64,
    dilation: i64,
    groups: i64,
    dtype: DType,
    format: MemoryFormat,
}

/// The usual: `kernel` by `kernel`, with stride 1 and as much padding as keeps the size of 3 by 3.
const fn conv(batch: i64, inputs: i64, size: i64, outputs: i64, kernel: i64) -> Conv {
    let padding = if kernel == 3 { 1 } else { 0 };
    Conv {
        batch,
        inputs,
        size,
        outputs,
        kernel,
        stride: 1,
        padding,
        dilation: 1,
        groups: 1,
        dtype: F32,
        format: MemoryFormat::Contiguous,
    }
}

const CONVOLUTIONS: [(&str, Conv); 15] = [
    ("stem_1x3x224_7x7s2", Conv { stride: 2, padding: 3, ..conv(1, 3, 224, 64, 7) }),
    ("stem_8x3x224_7x7s2", Conv { stride: 2, padding: 3, ..conv(8, 3, 224, 64, 7) }),
    ("3x3_1x64x56", conv(1, 64, 56, 64, 3)),
    ("3x3_8x64x56", conv(8, 64, 56, 64, 3)),
    ("3x3s2_1x128x56", Conv { stride: 2, ..conv(1, 128, 56, 256, 3) }),
    ("3x3_1x512x7", conv(1, 512, 7, 512, 3)),
    ("1x1_1x256x56", conv(1, 256, 56, 64, 1)),
    ("1x1_8x64x56", conv(8, 64, 56, 256, 1)),
    ("depthwise_8x128x56", Conv { groups: 128, ..conv(8, 128, 56, 128, 3) }),
    ("grouped_8x64x56_g4", Conv { groups: 4, ..conv(8, 64, 56, 64, 3) }),
    ("dilated_1x64x56", Conv { padding: 2, dilation: 2, ..conv(1, 64, 56, 64, 3) }),
    ("5x5_64x6x14", conv(64, 6, 14, 16, 5)),
    ("channels_last_8x64x56", Conv { format: MemoryFormat::ChannelsLast, ..conv(8, 64, 56, 64, 3) }),
    ("bf16_8x64x56", Conv { dtype: BF16, ..conv(8, 64, 56, 64, 3) }),
    ("f64_1x64x56", Conv { dtype: F64, ..conv(1, 64, 56, 64, 3) }),
];

/// Images that most cases are of.
const IMAGES: [i64; 4] = [8, 64, 56, 56];

/// All cases.
pub fn cases(g: &mut Group<'_>) {
    for (name, c) in CONVOLUTIONS {
        g.case(
            format!("conv2d_{name}"),
            || {
                let images = normal_of(&[c.batch, c.inputs, c.size, c.size], c.dtype);
                let weight = normal_of(&[c.outputs, c.inputs / c.groups, c.kernel, c.kernel], c.dtype);
                let [x, w] = [images, weight].map(|t| ok(t.contiguous_in(c.format)));
                [x, w, normal_of(&[c.outputs], c.dtype)]
            },
            |[x, w, bias]| x.conv2d(w, Some(bias), &[c.stride; 2], &[c.padding; 2], &[c.dilation; 2], c.groups),
        );
    }
    g.case(
        "conv1d_16x64x1024_k5",
        || [normal(&[16, 64, 1024]), normal(&[64, 64, 5]), normal(&[64])],
        |[x, w, c]| x.conv1d(w, Some(c), &[1], &[2], &[1], 1),
    );
    g.case(
        "conv3d_2x16x16_3x3x3",
        || [normal(&[2, 16, 16, 32, 32]), normal(&[32, 16, 3, 3, 3]), normal(&[32])],
        |[x, w, c]| x.conv3d(w, Some(c), &[1; 3], &[1; 3], &[1; 3], 1),
    );
    g.case(
        "conv_transpose2d_8x64x28",
        || [normal(&[8, 64, 28, 28]), normal(&[64, 32, 4, 4]), normal(&[32])],
        |[x, w, c]| x.conv_transpose2d(w, Some(c), &[2; 2], &[1; 2], &[0; 2], 1, &[1; 2]),
    );
    pools(g);
    norms(g);
    resizing(g);
}

fn pools(g: &mut Group<'_>) {
    let images = || normal(&[8, 64, 112, 112]);
    g.case("max_pool2d_8x64x112_3s2", images, |x| x.max_pool2d(&[3; 2], &[2; 2], &[1; 2], &[1; 2], false));
    g.case(
        "max_pool2d_2x2_64x6x28",
        || normal(&[64, 6, 28, 28]),
        |x| x.max_pool2d(&[2; 2], &[2; 2], &[0; 2], &[1; 2], false),
    );
    g.case("avg_pool2d_8x64x112_2", images, |x| x.avg_pool2d(&[2; 2], &[2; 2], &[0; 2], false, true, None));
    g.case("adaptive_avg_pool2d_8x512x7", || normal(&[8, 512, 7, 7]), |x| x.adaptive_avg_pool2d(&[1; 2]));
}

fn norms(g: &mut Group<'_>) {
    let make: fn(&[i64]) -> Tensor = normal;
    for (name, images, training) in
        [("train_8x64x56", make, true), ("eval_8x64x56", make, false), ("train_channels_last", channels_last, true)]
    {
        g.case(
            format!("batch_norm_{name}"),
            || {
                let statistics = [ok(Tensor::zeros(&[64], F32)), ok(Tensor::ones(&[64], F32))];
                (images(&IMAGES), [normal(&[64]), normal(&[64])], statistics)
            },
            |(x, [w, c], [mean, var])| x.batch_norm(Some(w), Some(c), Some(mean), Some(var), training, 0.1, 1e-5),
        );
    }
    g.case(
        "group_norm_8x64x56_g8",
        || [normal(&IMAGES), normal(&[64]), normal(&[64])],
        |[x, w, c]| x.group_norm(8, Some(w), Some(c), 1e-5),
    );
}

fn resizing(g: &mut Group<'_>) {
    for (name, mode) in
        [("nearest", UpsampleMode::Nearest), ("bilinear", UpsampleMode::Linear { align_corners: false })]
    {
        g.case(
            format!("interpolate_{name}_x2"),
            || (Upsample { to: UpsampleTo::Scales(vec![2.0, 2.0]), mode }, normal(&[8, 16, 64, 64])),
            |(upsample, x)| upsample.forward(x),
        );
    }
    g.case("pad_reflect_8x64x56", || normal(&IMAGES), |x| x.pad(&[1; 4], "reflect", None));
    g.case("pad_zero_8x64x56", || normal(&IMAGES), |x| x.pad(&[1; 4], "constant", None));
    g.case("unfold_8x16x56_3x3", || normal(&[8, 16, 56, 56]), |x| x.im2col(&[3; 2], &[1; 2], &[1; 2], &[1; 2]));
}
