//! Pointwise operators over sizes, dtypes and layouts, and the filling of tensors.

use crate::inputs::{channels_last, integers, mask, normal, normal_of, uniform};
use crate::{Group, ok};
use flambeau::DType::{self, BF16, F32, F64, I64};
use flambeau::{Result, Tensor, index};

type Unary = fn(&Tensor) -> Result<Tensor>;
type Binary = fn(&Tensor, &Tensor) -> Result<Tensor>;

const SIZES: [(&str, i64); 3] = [("1k", 1000), ("100k", 100_000), ("10M", 10_000_000)];
const MILLION: i64 = 1024 * 1024;

/// Functions, and whether a thousand elements of them are measured too.
const UNARY: [(&str, Unary, bool); 7] = [
    ("exp", Tensor::exp, true),
    ("tanh", Tensor::tanh, true),
    ("sigmoid", Tensor::sigmoid, true),
    ("relu", Tensor::relu, false),
    ("gelu", |x| x.gelu("none"), true),
    ("sin", Tensor::sin, false),
    ("neg", Tensor::neg, false),
];
const BINARY: [(&str, Binary, bool); 4] = [
    ("add", |x, y| x.add(y), true),
    ("mul", |x, y| x.mul(y), true),
    ("div", |x, y| x.div(y), false),
    ("maximum", |x, y| x.maximum(y), false),
];

/// All cases.
pub fn cases(g: &mut Group<'_>) {
    for (size, n) in SIZES {
        floats(g, size, n);
    }
    for (size, n) in &SIZES[1..] {
        dtypes(g, size, *n);
        mixtures(g, size, *n);
    }
    layouts(g);
    others(g);
}

fn floats(g: &mut Group<'_>, size: &str, n: i64) {
    for (name, f, small) in BINARY {
        if small || size != "1k" {
            g.case(format!("{name}_f32_{size}"), || operands(n, F32), |(x, y)| f(x, y));
        }
    }
    if size != "1k" {
        let inputs = || (uniform(0.1, 3.0, &[n], F32), uniform(0.5, 2.0, &[n], F32));
        g.case(format!("pow_f32_{size}"), inputs, |(x, y)| x.pow(y));
    }
    for (name, f, small) in UNARY {
        if small || size != "1k" {
            g.case(format!("{name}_f32_{size}"), || normal(&[n]), f);
        }
    }
    let two = || (normal(&[n]), normal(&[n]));
    g.case(format!("log_f32_{size}"), || uniform(0.1, 9.0, &[n], F32), Tensor::log);
    g.case(format!("where_f32_{size}"), || (mask(&[n]), two()), |(k, (x, y))| k.where_(x, y));
    g.case(format!("clamp_f32_{size}"), || normal(&[n]), |x| x.clamp(-1.0, 1.0));
    g.case(format!("gt_f32_{size}"), two, |(x, y)| x.gt(y));
    g.case(format!("add_inplace_f32_{size}"), || (normal(&[n]), ok(Tensor::zeros(&[n], F32))), |(x, y)| x.add_(y));
    g.case(format!("add_scalar_f32_{size}"), || normal(&[n]), |x| x.add(1.5));
}

/// Two operands; the second ones are positive.
fn operands(n: i64, dtype: DType) -> (Tensor, Tensor) {
    let second = if dtype == I64 { integers(1, 100, &[n]) } else { uniform(0.5, 2.0, &[n], dtype) };
    (normal_of(&[n], dtype), second)
}

fn dtypes(g: &mut Group<'_>, size: &str, n: i64) {
    for (dtype_name, dtype) in [("f64", F64), ("bf16", BF16), ("i64", I64)] {
        for (name, f, _) in &BINARY[..2] {
            g.case(format!("{name}_{dtype_name}_{size}"), || operands(n, dtype), |(x, y)| f(x, y));
        }
        for (name, f, _) in UNARY.iter().filter(|(name, ..)| dtype != I64 && matches!(*name, "exp" | "gelu")) {
            g.case(format!("{name}_{dtype_name}_{size}"), || normal_of(&[n], dtype), f);
        }
    }
    for (name, from, to) in [("f32_bf16", F32, BF16), ("bf16_f32", BF16, F32), ("i64_f32", I64, F32)] {
        g.case(format!("cast_{name}_{size}"), || normal_of(&[n], from), |x| x.to_dtype(to));
    }
}

fn mixtures(g: &mut Group<'_>, size: &str, n: i64) {
    let shape = [n];
    g.case(format!("mixed_f32_f64_{size}"), || (normal(&shape), normal_of(&shape, F64)), |(x, y)| x.add(y));
    g.case(format!("mixed_i64_f32_{size}"), || (normal_of(&shape, I64), normal(&shape)), |(x, y)| x.mul(y));
    g.case(format!("swish_chain_{size}"), || (normal(&shape), normal(&shape)), |(x, y)| x.mul(&x.sigmoid()?)?.add(y));
    g.case(
        format!("norm_chain_{size}"),
        || [normal(&shape), normal(&[1]), normal(&[1]), normal(&shape), normal(&shape)],
        |[x, u, v, w, y]| x.sub(u)?.mul(v)?.mul(w)?.add(y),
    );
}

fn layouts(g: &mut Group<'_>) {
    for (name, n) in [("1kx1k", 1000), ("3kx3k", 3162)] {
        let matrix = || normal(&[n, n]);
        let transposed = || ok(matrix().t());
        g.case(format!("bcast_outer_{name}"), || (normal(&[n, 1]), normal(&[1, n])), |(x, y)| x.add(y));
        g.case(format!("add_transposed_{name}"), || (transposed(), matrix()), |(x, y)| x.add(y));
        g.case(format!("add_both_transposed_{name}"), || (transposed(), transposed()), |(x, y)| x.add(y));
        g.case(format!("exp_transposed_{name}"), transposed, Tensor::exp);
    }
    let images = [8, 64, 56, 56];
    g.case("bias_row_4096x1024", || (normal(&[4096, 1024]), normal(&[1024])), |(x, y)| x.add(y));
    g.case("bias_channel_8x64x56x56", || (normal(&images), normal(&[64, 1, 1])), |(x, y)| x.add(y));
    g.case("mul_col_4096x1024", || (normal(&[4096, 1024]), normal(&[4096, 1])), |(x, y)| x.mul(y));
    g.case("add_strided_cols", || ok(normal(&[1024, 2048]).at(&index![.., (..; 2)])), |x| x.add(x));
    g.case(
        "add_permuted_4d",
        || (ok(normal(&[8, 56, 56, 64]).permute(&[0, 3, 1, 2])), normal(&images)),
        |(x, y)| x.add(y),
    );
    g.case("add_channels_last", || (channels_last(&images), channels_last(&images)), |(x, y)| x.add(y));
    g.case("relu_channels_last", || channels_last(&images), Tensor::relu);
}

fn others(g: &mut Group<'_>) {
    let million = || normal(&[MILLION]);
    g.case("relu_inplace_1M", million, Tensor::relu_);
    g.case("addcmul_inplace_1M", || [million(), million(), million()], |[x, y, z]| x.addcmul_(y, z, 1e-9));
    g.case("lerp_1M", || (million(), million()), |(x, y)| x.lerp(y, 0.3));
    g.case("fill_inplace_10M", || normal(&[10_000_000]), |x| x.fill_(1.0));
    g.case("zeros_10M", || (), |()| Tensor::zeros(&[10_000_000], ()));
    g.case("rand_1M", || (), |()| Tensor::rand(&[MILLION], ()));
    g.case("randn_1M", || (), |()| Tensor::randn(&[MILLION], ()));
    g.case("randperm_1M", || (), |()| Tensor::randperm(MILLION));
    g.case("dropout_train_1M", million, |x| x.dropout(0.1, true));
}
