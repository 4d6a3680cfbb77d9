//! Products of matrices and what is made of them.

use crate::inputs::{normal, normal_of};
use crate::{Group, ok};
use flambeau::DType::{self, BF16, F32, F64, I64};
use flambeau::Tensor;

const DTYPES: [(&str, DType); 3] = [("f32", F32), ("f64", F64), ("bf16", BF16)];

/// All cases.
pub fn cases(g: &mut Group<'_>) {
    for n in [64, 128, 256, 512, 1024, 2048] {
        for (name, dtype) in DTYPES.into_iter().filter(|(_, dtype)| n != 128 || *dtype == F32) {
            product(g, &format!("matmul_{n}_{name}"), &[n, n], &[n, n], dtype);
        }
    }
    let square = || normal(&[512, 512]);
    g.case("matmul_nt_512", || (square(), ok(square().t())), |(x, y)| x.matmul(y));
    g.case("matmul_tn_512", || (ok(square().t()), square()), |(x, y)| x.matmul(y));
    product(g, "matmul_odd_511x509x513", &[511, 509], &[509, 513], F32);
    product(g, "matmul_vec_1x4096x4096", &[1, 4096], &[4096, 4096], F32);
    product(g, "matmul_vec_bf16_1x4096x4096", &[1, 4096], &[4096, 4096], BF16);
    product(g, "matmul_mv_4096", &[4096, 4096], &[4096], F32);
    product(g, "matmul_skinny_8x1024x1024", &[8, 1024], &[1024, 1024], F32);
    product(g, "matmul_tall_100000x16x16", &[100_000, 16], &[16, 16], F32);
    product(g, "matmul_rank16_2048", &[2048, 16], &[16, 2048], F32);
    product(g, "matmul_bcast_64x1_128x128", &[64, 128, 128], &[128, 128], F32);
    product(g, "matmul_i64_256", &[256, 256], &[256, 256], I64);

    let vector = |n: i64| normal(&[n]);
    g.case("dot_1M", || (vector(1024 * 1024), vector(1024 * 1024)), |(x, y)| x.dot(y));
    g.case("outer_3000", || (vector(3000), vector(3000)), |(x, y)| x.outer(y));
    for (name, dtype) in [("f32", F32), ("bf16", BF16)] {
        g.case(
            format!("bmm_32x128x64x128_{name}"),
            || (normal_of(&[32, 128, 64], dtype), normal_of(&[32, 64, 128], dtype)),
            |(x, y)| x.bmm(y),
        );
    }
    g.case("bmm_1000x8x8x8", || (normal(&[1000, 8, 8]), normal(&[1000, 8, 8])), |(x, y)| x.bmm(y));
    for (rows, inputs, outputs, dtype) in
        [(128, 784, 512, F32), (1024, 768, 3072, F32), (1, 768, 3072, F32), (1024, 768, 3072, BF16)]
    {
        let kind = if dtype == BF16 { "bf16_" } else { "" };
        g.case(
            format!("linear_{kind}{rows}x{inputs}x{outputs}"),
            || [&[rows, inputs][..], &[outputs, inputs], &[outputs]].map(|sizes| normal_of(sizes, dtype)),
            |[x, w, c]| x.linear(w, Some(c)),
        );
    }
    let three = || [normal(&[256, 256]), normal(&[256, 256]), normal(&[256, 256])];
    g.case("addmm_256", three, |[c, x, y]| c.addmm(x, y));
    g.case(
        "einsum_bhid_bhjd",
        || [normal(&[8, 4, 128, 64]), normal(&[8, 4, 128, 64])],
        |xs| Tensor::einsum("bhid,bhjd->bhij", xs),
    );
    g.case(
        "einsum_bilinear",
        || [normal(&[64, 64]), normal(&[64, 32, 64]), normal(&[64, 64])],
        |xs| Tensor::einsum("bi,ijk,bk->bj", xs),
    );
    let attentions: [(&str, [i64; 4], DType, bool); 3] = [
        ("causal_8x4x128x32", [8, 4, 128, 32], F32, true),
        ("causal_1x12x1024x64", [1, 12, 1024, 64], F32, true),
        ("bf16_1x12x1024x64", [1, 12, 1024, 64], BF16, false),
    ];
    for (name, sizes, dtype, causal) in attentions {
        g.case(
            format!("sdpa_{name}"),
            || [(); 3].map(|()| normal_of(&sizes, dtype)),
            |[q, k, v]| q.scaled_dot_product_attention(k, v, None, 0.0, causal, None, false),
        );
    }
}

fn product(g: &mut Group<'_>, name: &str, x: &[i64], y: &[i64], dtype: DType) {
    g.case(name, || (normal_of(x, dtype), normal_of(y, dtype)), |(x, y)| x.matmul(y));
}
