//! Linear algebra and Fourier transforms.

use crate::inputs::{normal, normal_of, positive_definite};
use crate::{Group, ok};
use flambeau::DType::Complex64;
use flambeau::{Error, Tensor, Value, registry};

/// All cases.
pub fn cases(g: &mut Group<'_>) {
    g.case("cholesky_512", || positive_definite(512), |x| x.cholesky(false));
    g.case(
        "cholesky_batch_100x16",
        || ok(Tensor::stack(&(0..100).map(|_| positive_definite(16)).collect::<Vec<_>>(), 0)),
        |x| x.cholesky(false),
    );
    g.case("qr_512x256", || normal(&[512, 256]), Tensor::qr);
    g.case("svd_256", || normal(&[256, 256]), |x| x.svd_parts(true, true));
    g.case("svdvals_256", || normal(&[256, 256]), Tensor::svdvals);
    g.case("eigh_256", || positive_definite(256), Tensor::eigh);
    g.case("eig_128", || normal(&[128, 128]), Tensor::eig);
    g.case("solve_512", || (positive_definite(512), normal(&[512, 8])), |(x, y)| x.solve(y, true));
    g.case("inv_512", || positive_definite(512), Tensor::inv);
    g.case("slogdet_256", || positive_definite(256), Tensor::slogdet);
    g.case(
        "lstsq_512x64",
        || (normal(&[512, 64]), normal(&[512, 8])),
        |(x, y)| {
            let lstsq = registry::find("linalg_lstsq").ok_or_else(|| Error::not_implemented("linalg_lstsq"))?;
            lstsq.call(&[x.into(), y.into(), Value::None, Value::None])
        },
    );
    g.case(
        "solve_triangular_512",
        || (ok(positive_definite(512).tril(0)), normal(&[512, 64])),
        |(x, y)| x.solve_triangular(y, false, true, false),
    );
    g.case("matrix_exp_64", || ok(positive_definite(64).mul(0.1)), Tensor::matrix_exp);

    for (name, sizes) in [("2_20", &[1 << 20][..]), ("rows_1kx1k", &[1024, 1024]), ("prime_10007", &[10007])] {
        g.case(format!("fft_{name}"), || normal_of(sizes, Complex64), |x| x.fft_fft(None, -1, None));
    }
    g.case("rfft2_1kx1k", || normal(&[1024, 1024]), |x| x.fft_rfft2(None, &[-2, -1], None));
    g.case("irfft_1M", || normal_of(&[(1 << 19) + 1], Complex64), |x| x.fft_irfft(Some(1 << 20), -1, None));
}
