//! Matrix products.

use super::binary::check_factor;
use crate::autograd::{Forward, Geometry};
use crate::dims::{self, Dims, wrap_dim};
use crate::{Body, DType, Error, Op, OutRule, Result, Scalar, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::gemm::{Matrix, MatrixMut, Sizes};

const ONE: Scalar = Scalar::Int(1);
const ZERO: Scalar = Scalar::Int(0);

fn check_dtypes(op: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    ensure!(
        a.dtype() == b.dtype(),
        "expected m1 and m2 to have the same dtype, but got: {} != {}",
        a.dtype().cpp_name(),
        b.dtype().cpp_name()
    );
    if a.dtype() == DType::Bool {
        return Err(Error::not_implemented(format!("\"{op}\" not implemented for 'Bool'")));
    }
    crate::dispatch::check_same_device(a, b.device())?;
    Ok(())
}

fn matrix(t: &Tensor) -> Matrix<u8> {
    let n = t.dim();
    Matrix {
        start: t.data_ptr(),
        row_stride: t.strides()[n - 2] as isize,
        column_stride: t.strides()[n - 1] as isize,
        conj: false,
    }
}

fn matrix_mut(t: &Tensor) -> MatrixMut<u8> {
    let m = matrix(t);
    MatrixMut { start: t.data_ptr(), row_stride: m.row_stride, column_stride: m.column_stride }
}

/// `out = alpha * a @ b + beta * out` for matrices, or batches of them.
fn multiply(a: &Tensor, b: &Tensor, alpha: Scalar, beta: Scalar, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let n = a.dim();
    let sizes = Sizes { m: a.sizes()[n - 2] as usize, k: a.sizes()[n - 1] as usize, n: b.sizes()[n - 1] as usize };
    let _locks = LockSet::new([(a.storage(), false), (b.storage(), false), (out.storage(), true)])?;
    // SAFETY: sizes were checked against each other and against the output; the storages are locked and apart.
    unsafe {
        match n {
            2 => flambeau_cpu::gemm::gemm(a.dtype(), sizes, alpha, matrix(a), matrix(b), beta, matrix_mut(out)),
            _ => flambeau_cpu::gemm::batched_gemm(
                a.dtype(),
                a.sizes()[0] as usize,
                sizes,
                alpha,
                (matrix(a), a.strides()[0] as isize),
                (matrix(b), b.strides()[0] as isize),
                beta,
                (matrix_mut(out), out.strides()[0] as isize),
            ),
        }
    }
    Ok(())
}

// ---- mm -----------------------------------------------------------------------------------------

fn mm_plan(a: &Tensor, b: &Tensor) -> Result<TensorSpec> {
    ensure!(a.dim() == 2, "self must be a matrix");
    ensure!(b.dim() == 2, "mat2 must be a matrix");
    ensure!(
        a.sizes()[1] == b.sizes()[0],
        "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        a.sizes()[0],
        a.sizes()[1],
        b.sizes()[0],
        b.sizes()[1]
    );
    check_dtypes("addmm_impl_cpu_", a, b)?;
    Ok(TensorSpec::like(Dims::from_slice(&[a.sizes()[0], b.sizes()[1]]), a))
}
fn mm_run(a: &Tensor, b: &Tensor, outs: &[Tensor]) -> Result<()> {
    multiply(a, b, ONE, ZERO, &outs[0])
}

/// The conjugate transpose of a matrix or a batch of them.
fn adjoint(x: &Tensor) -> Result<Tensor> {
    x.transpose(-2, -1)?.conj()
}

/// The gradient of the right factor of a product, which lies as that does: the gradient of a transposed weight is then
/// row-major once transposed back.
fn gradient_of_right(g: &Tensor, left: &Tensor, right: &Geometry) -> Result<Tensor> {
    match right.strides[0] == 1 && right.strides[1] == right.sizes[0] {
        true => g.transpose(0, 1)?.mm(&left.conj()?)?.transpose(0, 1),
        false => adjoint(left)?.mm(g),
    }
}

fn dot_writes(result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "result dtype {} does not match input dtype {}",
        out.scalar_type_name(),
        result.scalar_type_name()
    );
    Ok(())
}
fn mv_writes(result: DType, out: DType) -> Result<()> {
    let (x, out_name) = (result.scalar_type_name(), out.scalar_type_name());
    ensure!(result == out, "addmv input tensors must have the same dtype, but got {out_name}, {x}, and {x}");
    Ok(())
}
fn addbmm_writes(result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "self and mat2 must have the same dtype, but got {} and {}",
        out.scalar_type_name(),
        result.scalar_type_name()
    );
    Ok(())
}
fn tensordot_writes(result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "tensordot: Expected the output tensor to have dtype {}, but got an output tensor with dtype {}",
        result.scalar_type_name(),
        out.scalar_type_name()
    );
    Ok(())
}
/// What a product is made of says which dtypes it takes.
fn matmul_writes(write: &crate::out::Write<'_, '_>) -> Result<()> {
    match write.inputs {
        [crate::Value::Tensor(x), crate::Value::Tensor(y), ..] if y.dim() == 1 => match x.dim() {
            1 => dot_writes(write.result, write.out),
            _ => mv_writes(write.result, write.out),
        },
        _ => crate::out::exact(write.result, write.out),
    }
}
/// With a number it is the elementwise product.
fn inner_writes(write: &crate::out::Write<'_, '_>) -> Result<()> {
    let number = |v: &crate::Value<'_>| matches!(v, crate::Value::Tensor(t) if t.dim() == 0);
    match write.inputs.iter().any(number) {
        true => crate::out::castable(write.result, write.out),
        false => tensordot_writes(write.result, write.out),
    }
}

op! {
    /// The product of two matrices, (n, k) and (k, m).
    mm: "mm(Tensor self, Tensor mat2) -> Tensor", Out OUT: "mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(mm_plan; a, b), run: run!(mm_run; a, b) };
    derivative: backward! {
        self_(g, mat2: Tensor) => g.mm(&adjoint(&mat2)?)?,
        mat2(g, self_: Tensor, mat2: Geometry) => gradient_of_right(g, &self_, &mat2)?,
    };
    forward: Forward::Multilinear;
    samples: |m| match m.dtype { DType::Bool => vec![], _ => vec![
        sample![m.any(&[2, 3]), m.any(&[3, 4])], sample![m.any(&[2, 0]), m.any(&[0, 3])], sample![m.any(&[9, 17]), m.any(&[17, 5])],
    ] };
    ulp: 32.0;
    out_rule: OutRule::EXACT;
    fn mm(&self, mat2: &Tensor) -> Tensor [self, mat2];
}

fn int_mm_plan(a: &Tensor, b: &Tensor) -> Result<TensorSpec> {
    const OP: &str = "int_mm_out_cpu";
    ensure!(a.dim() == 2, "{OP}: Expected self to be of dimension 2 but got {}", a.dim());
    ensure!(b.dim() == 2, "{OP}: Expected mat2 to be of dimension 2 but got {}", b.dim());
    ensure!(
        a.sizes()[1] == b.sizes()[0],
        "{OP}: self.size(1) needs to match mat2.size(0) but got {} and {}",
        a.sizes()[1],
        b.sizes()[0]
    );
    ensure!(
        matches!(a.dtype(), DType::I8 | DType::U8),
        "{OP}: Expected self dtype to be int8 or uint8 but got {}",
        a.dtype().cpp_name()
    );
    ensure!(
        b.dtype() == DType::I8,
        "{OP}: Expected mat2 dtype to be of type int8 but got {}",
        b.dtype().cpp_name()
    );
    Ok(TensorSpec::like(Dims::from_slice(&[a.sizes()[0], b.sizes()[1]]), a).dtype(DType::I32))
}
fn int_mm_run(a: &Tensor, b: &Tensor, outs: &[Tensor]) -> Result<()> {
    let out = &outs[0];
    let size = |t: &Tensor, dim: usize| t.sizes()[dim] as usize;
    let sizes = Sizes { m: size(a, 0), k: size(a, 1), n: size(b, 1) };
    let _locks = LockSet::new([(a.storage(), false), (b.storage(), false), (out.storage(), true)])?;
    let unsigned = [a.dtype() == DType::U8, false];
    // SAFETY: sizes and dtypes were checked against each other; the storages are locked and apart.
    unsafe { flambeau_cpu::gemm::byte_gemm(sizes, matrix(a), matrix(b), unsigned, matrix_mut(out).cast()) };
    Ok(())
}

op! {
    /// The product of two matrices of bytes, (n, k), with or without signs, and (k, m) with signs, as `int32`; sums wrap.
    int_mm: "_int_mm(Tensor self, Tensor mat2) -> Tensor",
        Out OUT: "_int_mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(int_mm_plan; a, b), run: run!(int_mm_run; a, b) };
    samples: |m| match m.dtype { DType::I8 | DType::U8 => [[2, 3, 4], [1, 0, 2], [17, 9, 5], [40, 70, 33]].into_iter().map(|[n, k, c]| {
        sample![m.any(&[n, k]), m.uniform_of(DType::I8, &[k, c], -128.0, 128.0)]
    }).collect(), _ => vec![] };
    out_rule: OutRule::EXACT;
}

fn bmm_plan(a: &Tensor, b: &Tensor) -> Result<TensorSpec> {
    ensure!(a.dim() == 3, "batch1 must be a 3D tensor");
    ensure!(b.dim() == 3, "batch2 must be a 3D tensor");
    ensure!(
        a.sizes()[0] == b.sizes()[0] && a.sizes()[2] == b.sizes()[1],
        "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
        a.sizes()[0],
        a.sizes()[2],
        b.sizes()[0],
        b.sizes()[1]
    );
    check_dtypes("bmm", a, b)?;
    Ok(TensorSpec::like(Dims::from_slice(&[a.sizes()[0], a.sizes()[1], b.sizes()[2]]), a))
}
fn bmm_run(a: &Tensor, b: &Tensor, outs: &[Tensor]) -> Result<()> {
    multiply(a, b, ONE, ZERO, &outs[0])
}

op! {
    /// The products of two batches of matrices, (b, n, k) and (b, k, m).
    bmm: "bmm(Tensor self, Tensor mat2) -> Tensor", Out OUT: "bmm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(bmm_plan; a, b), run: run!(bmm_run; a, b) };
    derivative: backward! {
        self_(g, mat2: Tensor) => g.bmm(&adjoint(&mat2)?)?,
        mat2(g, self_: Tensor) => adjoint(&self_)?.bmm(g)?,
    };
    forward: Forward::Multilinear;
    samples: |m| match m.dtype { DType::Bool => vec![], _ => vec![sample![m.any(&[2, 2, 3]), m.any(&[2, 3, 4])]] };
    ulp: 32.0;
    out_rule: OutRule::EXACT;
    fn bmm(&self, mat2: &Tensor) -> Tensor [self, mat2];
}

// ---- addmm --------------------------------------------------------------------------------------

fn addmm_plan(x: &Tensor, a: &Tensor, b: &Tensor, _beta: Option<Scalar>, _alpha: Option<Scalar>) -> Result<TensorSpec> {
    ensure!(a.dim() == 2, "mat1 must be a matrix, got {}-D tensor", a.dim());
    ensure!(b.dim() == 2, "mat2 must be a matrix, got {}-D tensor", b.dim());
    ensure!(
        a.dtype() == b.dtype(),
        "mat1 and mat2 must have the same dtype, but got {} and {}",
        a.dtype().scalar_type_name(),
        b.dtype().scalar_type_name()
    );
    let spec = mm_plan(a, b)?;
    added(x, a, &spec)?;
    Ok(spec)
}

fn added(x: &Tensor, a: &Tensor, spec: &TensorSpec) -> Result<()> {
    ensure!(
        x.dtype() == a.dtype(),
        "self and mat2 must have the same dtype, but got {} and {}",
        x.dtype().scalar_type_name(),
        a.dtype().scalar_type_name()
    );
    dims::broadcast_strides(x.sizes(), x.strides(), &spec.sizes).map(drop)
}

fn addmm_run(x: &Tensor, a: &Tensor, b: &Tensor, beta: Option<Scalar>, alpha: Option<Scalar>, outs: &[Tensor]) -> Result<()> {
    let dtype = a.dtype().compute();
    let (alpha, beta) = (alpha.unwrap_or(ONE).fit(dtype)?, beta.unwrap_or(ONE).fit(dtype)?);
    if beta.to_complex() != Scalar::Int(0).to_complex() {
        outs[0].copy_(x)?;
    }
    multiply(a, b, alpha, beta, &outs[0])
}

fn times(g: Tensor, factor: Option<Scalar>) -> Result<Tensor> {
    match factor {
        None | Some(Scalar::Int(1)) => Ok(g),
        Some(s) => g.mul(s.conj()),
    }
}

op! {
    /// `beta * self + alpha * mat1 @ mat2`, `self` broadcast.
    addmm: "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        InPlace INPLACE: "addmm_(Tensor(a!) self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!)",
        Out OUT: "addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(addmm_plan; x, a, b, beta, alpha), run: run!(addmm_run; x, a, b, beta, alpha) };
    derivative: backward! {
        self_(g, beta: Option<Scalar>) => times(g.clone(), beta)?,
        mat1(g, mat2: Tensor, alpha: Option<Scalar>) => times(g.mm(&adjoint(&mat2)?)?, alpha)?,
        mat2(g, mat1: Tensor, mat2: Geometry, alpha: Option<Scalar>) => times(gradient_of_right(g, &mat1, &mat2)?, alpha)?,
    };
    samples: |m| match m.dtype { DType::Bool => vec![], _ => vec![
        sample![m.any(&[4]), m.any(&[2, 3]), m.any(&[3, 4])],
        sample![m.any(&[2, 4]), m.any(&[2, 3]), m.any(&[3, 4]), Scalar::Int(2), Scalar::Int(3)],
    ] };
    ulp: 32.0;
    out_rule: OutRule::EXACT;
    fn addmm(&self, mat1: &Tensor, mat2: &Tensor) -> Tensor [self, mat1, mat2];
    fn addmm_scaled(&self, mat1: &Tensor, mat2: &Tensor, beta: impl Into<Scalar>, alpha: impl Into<Scalar>) -> Tensor [self, mat1, mat2, beta.into(), alpha.into()];
}

fn baddbmm_plan(x: &Tensor, a: &Tensor, b: &Tensor, _beta: Option<Scalar>, _alpha: Option<Scalar>) -> Result<TensorSpec> {
    let spec = bmm_plan(a, b)?;
    added(x, a, &spec)?;
    Ok(spec)
}

op! {
    /// `beta * self + alpha * batch1 @ batch2` for batches of matrices, `self` broadcast.
    baddbmm: "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        InPlace INPLACE: "baddbmm_(Tensor(a!) self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!)",
        Out OUT: "baddbmm.out(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(baddbmm_plan; x, a, b, beta, alpha), run: run!(addmm_run; x, a, b, beta, alpha) };
    derivative: backward! {
        self_(g, beta: Option<Scalar>) => times(g.clone(), beta)?,
        batch1(g, batch2: Tensor, alpha: Option<Scalar>) => times(g.bmm(&adjoint(&batch2)?)?, alpha)?,
        batch2(g, batch1: Tensor, alpha: Option<Scalar>) => times(adjoint(&batch1)?.bmm(g)?, alpha)?,
    };
    samples: |m| match m.dtype { DType::Bool => vec![], _ => vec![sample![m.any(&[2, 4]), m.any(&[2, 2, 3]), m.any(&[2, 3, 4])]] };
    ulp: 32.0;
    out_rule: OutRule::EXACT;
    fn baddbmm(&self, batch1: &Tensor, batch2: &Tensor) -> Tensor [self, batch1, batch2];
}

fn addbmm_any(x: &Tensor, a: &Tensor, b: &Tensor, beta: Option<Scalar>, alpha: Option<Scalar>) -> Result<Tensor> {
    bmm_plan(a, b)?;
    // The sum over the batch is one product with the batch merged into the inner dim.
    let (n, m) = (a.sizes()[1], b.sizes()[2]);
    let left = a.transpose(0, 1)?.reshape(&[n, -1])?;
    let right = b.reshape(&[-1, m])?;
    addmm::OP.call(&[x.into(), (&left).into(), (&right).into(), beta.unwrap_or(ONE).into(), alpha.unwrap_or(ONE).into()])?.one()
}

op! {
    /// `beta * self + alpha * sum of batch1[i] @ batch2[i]`.
    addbmm: "addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        InPlace INPLACE: "addbmm_(Tensor(a!) self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!)",
        Out OUT: "addbmm.out(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(addbmm_any; x, a, b, beta, alpha));
    samples: |m| vec![sample![m.any(&[3, 5]), m.any(&[2, 3, 4]), m.any(&[2, 4, 5]), Scalar::Int(2), Scalar::Int(3)], sample![m.any(&[]), m.any(&[2, 3, 4]), m.any(&[2, 4, 5])]];
    out_rule: OutRule::dtype(addbmm_writes).resizing_self();
}

/// Sizes as `2x3`.
fn by_times(sizes: &[i64]) -> String {
    sizes.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
}

fn addmv_any(x: &Tensor, a: &Tensor, v: &Tensor, beta: Option<Scalar>, alpha: Option<Scalar>) -> Result<Tensor> {
    ensure!(
        a.dim() == 2 && v.dim() == 1 && a.sizes()[1] == v.sizes()[0],
        "size mismatch, got input ({}), mat ({}), vec ({})",
        x.sizes().first().copied().unwrap_or(1),
        by_times(a.sizes()),
        by_times(v.sizes())
    );
    let x = x.expand(&[a.sizes()[0]])?.unsqueeze(1)?;
    addmm::OP
        .call(&[(&x).into(), a.into(), (&v.unsqueeze(1)?).into(), beta.unwrap_or(ONE).into(), alpha.unwrap_or(ONE).into()])?
        .one()?
        .squeeze_dim(1)
}

op! {
    /// `beta * self + alpha * mat @ vec`.
    addmv: "addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        InPlace INPLACE: "addmv_(Tensor(a!) self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!)",
        Out OUT: "addmv.out(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(addmv_any; x, a, v, beta, alpha));
    samples: |m| vec![sample![m.any(&[3]), m.any(&[3, 4]), m.any(&[4]), Scalar::Int(2), Scalar::Int(3)], sample![m.any(&[1]), m.any(&[3, 4]), m.any(&[4])]];
    out_rule: OutRule::EXACT;
}

fn addr_any(x: &Tensor, a: &Tensor, b: &Tensor, beta: Option<Scalar>, alpha: Option<Scalar>) -> Result<Tensor> {
    // (As a matrix: a number's dtype counts less.)
    let x = &if x.dim() == 0 { x.reshape(&[1, 1])? } else { x.clone() };
    let dtype = crate::promotion::result_type_of(&[x, a, b]);
    let factor = |name: &str, s: Option<Scalar>| -> Result<Scalar> {
        let s = check_factor(name, s.unwrap_or(if dtype == DType::Bool { Scalar::Bool(true) } else { ONE }), dtype)?;
        Ok(if dtype == DType::Bool { Scalar::Bool(s.to_bool()) } else { s.fit(dtype)? })
    };
    let (beta, alpha) = (factor("beta", beta)?, factor("alpha", alpha)?);
    let one = |s: Scalar| s.to_f64() == 1.0 && !s.is_complex();
    let a = if one(alpha) { a.clone() } else { a.mul(alpha)? };
    if !beta.to_bool() {
        let product = a.outer(b)?;
        return product.expand(&dims::broadcast(x.sizes(), product.sizes())?);
    }
    let x = if one(beta) { x.clone() } else { x.mul(beta)? };
    if dtype.is_floating_point() && [&x, &a, b].iter().all(|t| t.dtype() == dtype) && a.dim() == 1 && b.dim() == 1 {
        return x.addcmul(&b.unsqueeze(0)?, &a.unsqueeze(1)?, 1);
    }
    x.add(&a.outer(b)?)
}

op! {
    /// `beta * self + alpha * outer(vec1, vec2)`.
    addr: "addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        InPlace INPLACE: "addr_(Tensor(a!) self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!)",
        Out OUT: "addr.out(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(addr_any; x, a, b, beta, alpha));
    derivative: backward! {
        self_(g, beta: Option<Scalar>) => times(g.clone(), beta)?,
        vec1(g, vec2: Tensor, alpha: Option<Scalar>) => times(g.mv(&vec2.conj()?)?, alpha)?,
        vec2(g, vec1: Tensor, alpha: Option<Scalar>) => times(g.t()?.mv(&vec1.conj()?)?, alpha)?,
    };
    samples: |m| vec![sample![m.any(&[3, 4]), m.any(&[3]), m.any(&[4]), Scalar::Int(2), Scalar::Int(3)]];
}

// ---- vectors ------------------------------------------------------------------------------------

fn mv_any(a: &Tensor, v: &Tensor) -> Result<Tensor> {
    ensure!(
        a.dim() == 2 && v.dim() == 1,
        "vector + matrix @ vector expected, got {}, {}, {}",
        1,
        a.dim(),
        v.dim()
    );
    ensure!(a.sizes()[1] == v.sizes()[0], "size mismatch, got input ({}), mat ({}x{}), vec ({})", a.sizes()[0], a.sizes()[0], a.sizes()[1], v.sizes()[0]);
    a.mm(&v.unsqueeze(1)?)?.squeeze_dim(1)
}

op! {
    /// A matrix times a vector.
    mv: "mv(Tensor self, Tensor vec) -> Tensor", Out OUT: "mv.out(Tensor self, Tensor vec, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(mv_any; a, v));
    derivative: backward! {
        self_(g, vec: Tensor) => g.unsqueeze(1)?.mul(&vec.conj()?)?,
        vec(g, self_: Tensor) => self_.transpose(0, 1)?.conj()?.mv(g)?,
    };
    forward: Forward::Multilinear;
    samples: |m| vec![sample![m.any(&[3, 4]), m.any(&[4])], sample![m.any(&[3, 0]), m.any(&[0])]];
    out_rule: OutRule::dtype(mv_writes);
    fn mv(&self, vec: &Tensor) -> Tensor [self, vec];
}

fn dot_any(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ensure!(
        a.dim() == 1 && b.dim() == 1,
        "1D tensors expected, but got {}D and {}D tensors",
        a.dim(),
        b.dim()
    );
    ensure!(
        a.dtype() == b.dtype(),
        "dot : expected both vectors to have same dtype, but found {} and {}",
        a.dtype().scalar_type_name(),
        b.dtype().scalar_type_name()
    );
    ensure!(
        a.numel() == b.numel(),
        "inconsistent tensor size, expected tensor [{}] and src [{}] to have the same number of elements, but got {} and {} \
         elements respectively",
        a.numel(),
        b.numel(),
        a.numel(),
        b.numel()
    );
    if a.dtype() == DType::Bool {
        return Err(Error::not_implemented("\"dot\" not implemented for 'Bool'"));
    }
    a.unsqueeze(0)?.mm(&b.unsqueeze(1)?)?.reshape(&[])
}

op! {
    /// The sum of products of two vectors.
    dot: "dot(Tensor self, Tensor tensor) -> Tensor", Out OUT: "dot.out(Tensor self, Tensor tensor, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(dot_any; a, b));
    derivative: backward! {
        self_(g, tensor: Tensor) => g.mul(&tensor.conj()?)?,
        tensor(g, self_: Tensor) => g.mul(&self_.conj()?)?,
    };
    forward: Forward::Multilinear;
    samples: |m| vec![sample![m.any(&[5]), m.any(&[5])], sample![m.any(&[0]), m.any(&[0])]];
    out_rule: OutRule::dtype(dot_writes);
    fn dot(&self, tensor: &Tensor) -> Tensor [self, tensor];
}

fn vdot_any(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    a.conj()?.dot(b)
}

op! {
    /// The sum of products of two vectors, the first conjugated.
    vdot: "vdot(Tensor self, Tensor other) -> Tensor", Out OUT: "vdot.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(vdot_any; a, b));
    samples: |m| vec![sample![m.any(&[5]), m.any(&[5])]];
    out_rule: OutRule::dtype(dot_writes);
    fn vdot(&self, other: &Tensor) -> Tensor [self, other];
}

fn outer_any(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ensure!(a.dim() == 1, "outer: Expected 1-D argument self, but got {}-D", a.dim());
    ensure!(b.dim() == 1, "outer: Expected 1-D argument vec2, but got {}-D", b.dim());
    a.unsqueeze(1)?.mul(b)
}

op! {
    /// All products of an element of one vector with one of the other.
    outer: "outer(Tensor self, Tensor vec2) -> Tensor", Out OUT: "outer.out(Tensor self, Tensor vec2, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(outer_any; a, b));
    samples: |m| vec![sample![m.any(&[3]), m.any(&[4])]];
    fn outer(&self, vec2: &Tensor) -> Tensor [self, vec2];
}

op! {
    /// Another name of `outer`.
    ger: "ger(Tensor self, Tensor vec2) -> Tensor", Out OUT: "ger.out(Tensor self, Tensor vec2, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(outer_any; a, b));
    samples: |m| vec![sample![m.any(&[3]), m.any(&[4])]];
}

fn inner_any(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.dim() == 0 || b.dim() == 0 {
        return a.mul(b);
    }
    ensure!(
        a.size(-1)? == b.size(-1)?,
        "inner() the last dimension must match on both input tensors but got shapes {:?} and {:?}",
        a.sizes(),
        b.sizes()
    );
    a.tensordot(b, &[-1], &[-1])
}

op! {
    /// The sums of products along both tensors' last dims.
    inner: "inner(Tensor self, Tensor other) -> Tensor", Out OUT: "inner.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(inner_any; a, b));
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[4, 3])], sample![m.any(&[]), m.any(&[2, 3])]];
    out_rule: OutRule::call(inner_writes);
    fn inner(&self, other: &Tensor) -> Tensor [self, other];
}

// ---- matmul -------------------------------------------------------------------------------------

fn matmul_any(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (a.dim(), b.dim()) {
        (0, _) | (_, 0) => Err(Error::runtime(format!(
            "both arguments to matmul need to be at least 1D, but they are {}D and {}D",
            a.dim(),
            b.dim()
        ))),
        (1, 1) => a.dot(b),
        (2, 1) => a.mv(b),
        (1, 2) => a.unsqueeze(0)?.mm(b)?.squeeze_dim(0),
        (2, 2) => a.mm(b),
        // One right matrix for all: one tall product.
        (n, 1 | 2) if n >= 3 => {
            let mut sizes = Dims::from_slice(&a.sizes()[..n - 1]);
            if a.sizes()[n - 1] != b.sizes()[0] {
                return Err(mismatch(a, b));
            }
            if a.numel() == 0 {
                return batched(a, b);
            }
            let flat = a.reshape(&[-1, a.sizes()[n - 1]])?;
            match b.dim() {
                1 => flat.mv(b)?._unsafe_view(&sizes),
                _ => {
                    sizes.push(b.sizes()[1]);
                    flat.mm(b)?._unsafe_view(&sizes)
                }
            }
        }
        _ => batched(a, b),
    }
}

fn mismatch(a: &Tensor, b: &Tensor) -> Error {
    let n = a.dim();
    let rows: i64 = a.sizes()[..n - 1].iter().product();
    let columns = if b.dim() > 1 { b.sizes()[1] } else { 1 };
    Error::runtime(format!(
        "mat1 and mat2 shapes cannot be multiplied ({rows}x{} and {}x{columns})",
        a.sizes()[n - 1],
        b.sizes()[0]
    ))
}

fn batched(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let left = if a.dim() == 1 { a.unsqueeze(0)? } else { a.clone() };
    let right = if b.dim() == 1 { b.unsqueeze(1)? } else { b.clone() };
    let (m, n) = (left.dim(), right.dim());
    let batch = dims::broadcast(&left.sizes()[..m - 2], &right.sizes()[..n - 2])?;
    let count: i64 = batch.iter().product();
    let full = |t: &Tensor| {
        let d = t.dim();
        let mut sizes = batch.clone();
        sizes.extend_from_slice(&t.sizes()[d - 2..]);
        t.expand(&sizes)?.reshape(&[count, t.sizes()[d - 2], t.sizes()[d - 1]])
    };
    let product = full(&left)?.bmm(&full(&right)?)?;
    let mut sizes = batch.clone();
    if a.dim() > 1 {
        sizes.push(left.sizes()[m - 2]);
    }
    if b.dim() > 1 {
        sizes.push(right.sizes()[n - 1]);
    }
    product._unsafe_view(&sizes)
}

op! {
    /// The product of vectors, matrices or batches of matrices, by NumPy's rules; batch dims broadcast.
    matmul: "matmul(Tensor self, Tensor other) -> Tensor", Out OUT: "matmul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(matmul_any; a, b));
    samples: |m| match m.dtype { DType::Bool => vec![], _ => vec![
        sample![m.any(&[3]), m.any(&[3])], sample![m.any(&[2, 3]), m.any(&[3])], sample![m.any(&[3]), m.any(&[2, 3, 4])],
        sample![m.any(&[2, 1, 2, 3]), m.any(&[3, 3, 4])], sample![m.any(&[2, 2, 3]), m.any(&[3, 4])],
    ] };
    ulp: 32.0;
    out_rule: OutRule::call(matmul_writes);
    fn matmul(&self, other: &Tensor) -> Tensor [self, other];
}

fn linear_any(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    ensure!(
        x.dim() > 0 && weight.dim() > 0,
        "both arguments to linear need to be at least 1D, but they are {}D and {}D",
        x.dim(),
        weight.dim()
    );
    if weight.dim() != 2 {
        let y = x.matmul(&if weight.dim() > 1 { weight.transpose(-2, -1)? } else { weight.clone() })?;
        return match bias {
            Some(b) => y.add(b),
            None => Ok(y),
        };
    }
    let w = weight.t()?;
    let Some(bias) = bias else { return x.matmul(&w) };
    match x.dim() {
        2 => bias.addmm(x, &w),
        1 => x.matmul(&w)?.add(bias),
        n => {
            ensure!(
                x.sizes()[n - 1] == weight.sizes()[1],
                "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
                x.sizes()[..n - 1].iter().product::<i64>(),
                x.sizes()[n - 1],
                weight.sizes()[1],
                weight.sizes()[0]
            );
            if x.numel() == 0 {
                return x.matmul(&w)?.add(bias);
            }
            let mut sizes = Dims::from_slice(&x.sizes()[..n - 1]);
            sizes.push(weight.sizes()[0]);
            bias.addmm(&x.reshape(&[-1, x.sizes()[n - 1]])?, &w)?.view(&sizes)
        }
    }
}

op! {
    /// `input @ weight.T + bias`: input (..., in), weight (out, in), bias (out).
    linear: "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
        Out OUT: "linear.out(Tensor input, Tensor weight, Tensor? bias=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(linear_any; x, weight, bias));
    samples: |m| match m.dtype { DType::Bool => vec![], _ => vec![
        sample![m.any(&[2, 3]), m.any(&[4, 3]), m.any(&[4])], sample![m.any(&[2, 2, 3]), m.any(&[4, 3]), m.any(&[4])],
        sample![m.any(&[3]), m.any(&[4, 3]), ()],
    ] };
    ulp: 32.0;
    out_rule: OutRule::EXACT;
    fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Tensor [self, weight, bias];
}

fn tensordot_any(a: &Tensor, b: &Tensor, dims_a: &[i64], dims_b: &[i64]) -> Result<Tensor> {
    ensure!(dims_a.len() == dims_b.len(), "both dimension lists should have same length");
    let wrap = |t: &Tensor, dims: &[i64]| dims.iter().map(|&d| wrap_dim(d, t.dim())).collect::<Result<Vec<_>>>();
    let (da, db) = (wrap(a, dims_a)?, wrap(b, dims_b)?);
    let (mut a, mut b) = (a.clone(), b.clone());
    let mut inner = 1;
    for (k, (&i, &j)) in da.iter().zip(&db).enumerate() {
        let (s, t) = (a.sizes()[i], b.sizes()[j]);
        // A size of one is summed away on the other side.
        if s == 1 && t != 1 {
            b = b.sum_dim_dtype(&[j as i64], true, b.dtype())?;
        } else if t == 1 && s != 1 {
            a = a.sum_dim_dtype(&[i as i64], true, a.dtype())?;
        } else {
            ensure!(s == t, "contracted dimensions need to match, but first has size {s} in dim {} and second has size {t} in dim {}", dims_a[k], dims_b[k]);
        }
        inner *= a.sizes()[i];
    }
    let free_a: Vec<usize> = (0..a.dim()).filter(|d| !da.contains(d)).collect();
    let free_b: Vec<usize> = (0..b.dim()).filter(|d| !db.contains(d)).collect();
    let order = |first: &[usize], then: &[usize]| -> Dims { first.iter().chain(then).map(|&d| d as i64).collect() };
    let rows: i64 = free_a.iter().map(|&d| a.sizes()[d]).product();
    let columns: i64 = free_b.iter().map(|&d| b.sizes()[d]).product();
    let sizes: Dims = free_a.iter().map(|&d| a.sizes()[d]).chain(free_b.iter().map(|&d| b.sizes()[d])).collect();
    let left = a.permute(&order(&free_a, &da))?.reshape(&[rows, inner])?;
    let right = b.permute(&order(&db, &free_b))?.reshape(&[inner, columns])?;
    left.mm(&right)?.reshape(&sizes)
}

op! {
    /// The sums of products over pairs of dims.
    tensordot: "tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
        Out OUT: "tensordot.out(Tensor self, Tensor other, int[] dims_self, int[] dims_other, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(tensordot_any; a, b, dims_a, dims_b));
    samples: |m| vec![sample![m.any(&[2, 3, 4]), m.any(&[4, 3, 5]), vec![2i64, 1], vec![0i64, 1]]];
    out_rule: OutRule::dtype(tensordot_writes);
    fn tensordot(&self, other: &Tensor, dims_self: &[i64], dims_other: &[i64]) -> Tensor [self, other, dims_self, dims_other];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    addbmm::ALL,
    addmm::ALL,
    addmv::ALL,
    addr::ALL,
    baddbmm::ALL,
    bmm::ALL,
    dot::ALL,
    ger::ALL,
    inner::ALL,
    int_mm::ALL,
    linear::ALL,
    matmul::ALL,
    mm::ALL,
    mv::ALL,
    outer::ALL,
    tensordot::ALL,
    vdot::ALL,
];

