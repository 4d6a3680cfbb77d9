//! Reductions, scans, softmax, norms and losses.

use crate::Group;
use crate::inputs::{integers, normal, normal_of};
use flambeau::DType::{BF16, F64, I64};
use flambeau::{Result, Tensor};
use flambeau_nn::loss;

/// Over everything, and over one dim.
type Reduction = (&'static str, fn(&Tensor) -> Result<Tensor>, fn(&Tensor, i64) -> Result<Tensor>);

const REDUCTIONS: [Reduction; 4] = [
    ("sum", Tensor::sum, |x, dim| x.sum_dim(&[dim], false)),
    ("max", Tensor::max, |x, dim| Ok(x.max_dim(dim, false)?.0)),
    ("argmax", |x| x.argmax(None, false), |x, dim| x.argmax(Some(dim), false)),
    ("std", |x| x.std(&[], 1.0, false), |x, dim| x.std(&[dim], 1.0, false)),
];

/// Sizes with their name, and the dims to reduce with theirs.
type Shape = (&'static str, &'static [i64], [(&'static str, i64); 2]);

/// All cases.
pub fn cases(g: &mut Group<'_>) {
    for (size, sizes) in [("10M", &[10_000_000][..]), ("1kx1k", &[1024, 1024])] {
        for (name, all, _) in REDUCTIONS {
            g.case(format!("{name}_all_{size}"), || normal(sizes), all);
        }
        g.case(format!("mean_all_{size}"), || normal(sizes), Tensor::mean);
    }
    let shapes: [Shape; 4] = [
        ("1kx1k", &[1024, 1024], [("inner", -1), ("outer", 0)]),
        ("64x1000x100", &[64, 1000, 100], [("inner", -1), ("middle", 1)]),
        ("100kx10", &[100_000, 10], [("inner", -1), ("outer", 0)]),
        ("10x100k", &[10, 100_000], [("inner", -1), ("outer", 0)]),
    ];
    for (size, sizes, dims) in shapes {
        for (place, dim) in dims {
            for (name, _, along) in REDUCTIONS {
                g.case(format!("{name}_{place}_{size}"), || normal(sizes), |x| along(x, dim));
            }
        }
    }
    for (name, dtype) in [("f64", F64), ("bf16", BF16)] {
        let inputs = || normal_of(&[1024, 1024], dtype);
        g.case(format!("sum_inner_{name}_1kx1k"), inputs, |x| x.sum_dim(&[-1], false));
    }
    g.case("sum_i64_10M", || normal_of(&[10_000_000], I64), Tensor::sum);
    g.case("mean_hw_8x64x56x56", || normal(&[8, 64, 56, 56]), |x| x.mean_dim(&[2, 3], false));
    g.case("norm_10M", || normal(&[10_000_000]), Tensor::norm);
    g.case("logsumexp_4096x1000", || normal(&[4096, 1000]), |x| x.logsumexp(&[-1], false));
    g.case("any_10M", || normal(&[10_000_000]), |x| x.gt(99.0)?.any());
    g.case("cumsum_inner_1kx1k", || normal(&[1024, 1024]), |x| x.cumsum(-1));
    g.case("cumsum_outer_1kx1k", || normal(&[1024, 1024]), |x| x.cumsum(0));
    g.case("cumsum_1d_10M", || normal(&[10_000_000]), |x| x.cumsum(0));
    rows(g);
}

fn rows(g: &mut Group<'_>) {
    let shapes: [(&str, &[i64], i64); 4] = [
        ("4096x1000", &[4096, 1000], -1),
        ("64x32000", &[64, 32000], -1),
        ("32x128x128", &[32, 128, 128], -1),
        ("outer_1kx1k", &[1024, 1024], 0),
    ];
    for (size, sizes, dim) in shapes {
        g.case(format!("softmax_{size}"), || normal(sizes), |x| x.softmax(dim, None));
        g.case(format!("log_softmax_{size}"), || normal(sizes), |x| x.log_softmax(dim, None));
    }
    g.case("softmax_bf16_4096x1000", || normal_of(&[4096, 1000], BF16), |x| x.softmax(-1, None));
    for (rows, width) in [(4096, 768), (1024, 128)] {
        g.case(
            format!("layer_norm_{rows}x{width}"),
            || [normal(&[rows, width]), normal(&[width]), normal(&[width])],
            |[x, w, c]| x.layer_norm(&[width], Some(w), Some(c), 1e-5),
        );
    }
    g.case("rms_norm_4096x768", || (normal(&[4096, 768]), normal(&[768])), |(x, w)| x.rms_norm(&[768], Some(w), None));
    g.case(
        "cross_entropy_4096x1000",
        || (normal(&[4096, 1000]), integers(0, 1000, &[4096])),
        |(x, y)| loss::cross_entropy(x, y),
    );
    let million = || normal(&[1024 * 1024]);
    g.case("mse_loss_1M", || (million(), million()), |(x, y)| loss::mse_loss(x, y));
}
