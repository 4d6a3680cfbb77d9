//! Functions and products of matrices: exponentials, powers, chains of products, Kronecker products, cross products, and
//! equations of tensors.

use super::lu::{inverse_named, regular};
use super::matrices::{check_square, identity, shape, sizes_of};
use crate::autograd::{Forward, Geometry};
use crate::dims::{self, Dims, wrap_dim};
use crate::{Body, DType, Op, Result, Scalar, Tensor, TensorSpec, backward, ensure, sample};

// ---- exponential --------------------------------------------------------------------------------

/// The coefficients of the Padé approximants of degree 3, 5, 7, 9 and 13, and up to which 1-norm each is exact to double
/// and to single precision (Higham, "The scaling and squaring method for the matrix exponential revisited", tables 2.3
/// and A.1).
const PADE: [(&[f64], f64, f64); 5] = [
    (&[120.0, 60.0, 12.0, 1.0], 1.495_585_217_958_292e-2, 4.258_730_016_922_831e-1),
    (&[30240.0, 15120.0, 3360.0, 420.0, 30.0, 1.0], 2.539_398_330_063_23e-1, 1.880_152_677_804_762),
    (&[17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0], 9.504_178_996_162_932e-1, 3.925_724_783_138_66),
    (
        &[17643225600.0, 8821612800.0, 2075673600.0, 302702400.0, 30270240.0, 2162160.0, 110880.0, 3960.0, 90.0, 1.0],
        2.097_847_961_257_068,
        f64::INFINITY,
    ),
    (
        &[
            64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
            10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
        ],
        5.371_920_351_148_152,
        f64::INFINITY,
    ),
];

/// The approximant `(V - U)^-1 (V + U)`, U having the odd powers and V the even ones.
fn pade(x: &Tensor, coefficients: &[f64]) -> Result<Tensor> {
    let unit = identity(shape(x).0, x)?;
    let square = x.matmul(x)?;
    let (mut odd, mut even) = (unit.mul(coefficients[1])?, unit.mul(coefficients[0])?);
    let mut power = square.clone();
    for pair in coefficients[2..].chunks(2) {
        even = even.add(&power.mul(pair[0])?)?;
        odd = odd.add(&power.mul(pair[1])?)?;
        power = power.matmul(&square)?;
    }
    let odd = x.matmul(&odd)?;
    even.sub(&odd)?.solve(&even.add(&odd)?, true)
}

fn exp_any(x: &Tensor) -> Result<Tensor> {
    check_square("linalg.matrix_exp", "A", x)?;
    ensure!(
        x.dtype().is_differentiable(),
        "linalg.matrix_exp: Expected a floating point or complex tensor as input. Got {}",
        x.dtype().scalar_type_name()
    );
    let n = shape(x).0;
    if x.numel() == 0 || x.device().is_meta() {
        return x.zeros_like()?.clone_in(crate::MemoryFormat::Contiguous);
    }
    if n == 1 {
        return x.exp()?.clone_in(crate::MemoryFormat::Contiguous);
    }
    if matches!(x.dtype(), DType::F16 | DType::BF16) {
        return exp_any(&x.to_dtype(DType::F32)?)?.to_dtype(x.dtype());
    }
    // Each matrix by the approximant and the number of squarings that its own norm asks for.
    let flat = x.reshape(&[-1, n, n])?;
    let norms = flat.abs()?.sum_dim(&[-2], false)?.amax(&[-1], false)?.to_vec::<f64>()?;
    let double = x.dtype().to_real() == DType::F64;
    let last = if double { 4 } else { 2 };
    let limit = |degree: usize| if double { PADE[degree].1 } else { PADE[degree].2 };
    let plan = |norm: f64| match (0..last).find(|d| norm <= limit(*d)) {
        Some(degree) => (degree, 0),
        None if norm.is_finite() => (last, (norm / limit(last)).log2().ceil().max(0.0) as i64),
        None => (last, 0),
    };
    let plans: Vec<(usize, i64)> = norms.into_iter().map(plan).collect();
    let out = Tensor::fresh(x.device(), x.dtype(), Dims::from_slice(flat.sizes()))?;
    let mut done = vec![false; plans.len()];
    for i in 0..plans.len() {
        if done[i] {
            continue;
        }
        let (degree, squarings) = plans[i];
        let alike: Vec<i64> = (i..plans.len()).filter(|j| plans[*j] == plans[i]).map(|j| j as i64).collect();
        alike.iter().for_each(|j| done[*j as usize] = true);
        let index = Tensor::from_slice(&alike)?;
        let mut y = pade(&flat.index_select(0, &index)?.mul(0.5f64.powi(squarings as i32))?, PADE[degree].0)?;
        for _ in 0..squarings {
            y = y.matmul(&y)?;
        }
        out.index_copy_(0, &index, &y)?;
    }
    out.view(x.sizes())
}

/// The derivative along a direction is a block of the exponential of a larger matrix (Mathias, "A chain rule for matrix
/// functions and applications").
fn exp_backward(g: &Tensor, x: &Tensor) -> Result<Tensor> {
    let n = shape(x).0;
    let adjoint = x.mh()?;
    let upper = Tensor::cat(&[adjoint.clone(), g.clone()], -1)?;
    let lower = Tensor::cat(&[adjoint.zeros_like()?, adjoint], -1)?;
    Tensor::cat(&[upper, lower], -2)?.matrix_exp()?.narrow(-2, 0, n)?.narrow(-1, n, n)
}

op! {
    /// The exponentials of square matrices.
    linalg_matrix_exp: "linalg_matrix_exp(Tensor self) -> Tensor", Out OUT: "linalg_matrix_exp.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(exp_any; x));
    derivative: backward! { self_(g, self_: Tensor) => exp_backward(g, &self_)? };
    samples: |m| [&[3i64, 3][..], &[2, 2, 2]].into_iter().flat_map(|s| regular(m, s)).map(|x| sample![x]).collect();
    ulp: 1024.0;
    fn matrix_exp(&self) -> Tensor [self];
}
// ---- powers and chains --------------------------------------------------------------------------

fn power_any(x: &Tensor, n: i64) -> Result<Tensor> {
    check_square("linalg.matrix_power", "A", x)?;
    if n == 0 {
        // A constant that remembers where it came from: its gradient is zero.
        let everywhere = Tensor::full(&[], true, (DType::Bool, x.device()))?;
        return x.clone_in(crate::MemoryFormat::Contiguous)?.masked_fill(&everywhere, 0)?.add(&identity(shape(x).0, x)?);
    }
    if n == 1 {
        return x.clone_in(crate::MemoryFormat::Contiguous);
    }
    let mut square = if n < 0 { inverse_named("linalg.inv", x)? } else { x.clone() };
    let mut left = n.unsigned_abs();
    let mut product: Option<Tensor> = None;
    loop {
        if left & 1 == 1 {
            product = Some(match product {
                Some(p) => p.matmul(&square)?,
                None => square.clone(),
            });
        }
        left >>= 1;
        match (left, product) {
            (0, Some(p)) => return Ok(p),
            (_, p) => product = p,
        }
        square = square.matmul(&square)?;
    }
}

/// The powers 0 and 1 and those of nothing are copies; others come out of products, which cast nothing.
fn matrix_power_writes(write: &crate::Write<'_, '_>) -> Result<()> {
    write.safely_castable("matrix_power", &[])?;
    match write.inputs {
        [_, crate::Value::Int(0 | 1), ..] => Ok(()),
        [crate::Value::Tensor(x), ..] if x.numel() == 0 => Ok(()),
        _ => crate::out::exact(write.result, write.out),
    }
}

op! {
    /// Square matrices to an integral power; a negative one is that of the inverse.
    linalg_matrix_power: "linalg_matrix_power(Tensor self, int n) -> Tensor", Out OUT: "linalg_matrix_power.out(Tensor self, int n, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(power_any; x, n));
    samples: |m| regular(m, &[2, 3, 3]).into_iter().flat_map(|x| [sample![x.clone(), 3], sample![x.clone(), -2], sample![x, 0]]).collect();
    ulp: 1024.0;
    out_rule: crate::OutRule::call(matrix_power_writes).row_major();
    fn matrix_power(&self, n: i64) -> Tensor [self, n];
}
op! {
    /// Square matrices to an integral power; see `linalg_matrix_power`.
    matrix_power: "matrix_power(Tensor self, int n) -> Tensor", Out OUT: "matrix_power.out(Tensor self, int n, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(power_any; x, n));
    samples: |m| regular(m, &[3, 3]).into_iter().map(|x| sample![x, 2]).collect();
    ulp: 1024.0;
    out_rule: crate::OutRule::call(matrix_power_writes).row_major();
}

/// The cheapest order of products (Cormen et al., "Introduction to Algorithms", section 15.2): where to split each range.
fn cheapest(sizes: &[i64]) -> Vec<Vec<usize>> {
    let n = sizes.len() - 1;
    let (mut cost, mut split) = (vec![vec![0.0f64; n]; n], vec![vec![0; n]; n]);
    for length in 1..n {
        for i in 0..n - length {
            let j = i + length;
            cost[i][j] = f64::INFINITY;
            for k in i..j {
                let products = sizes[i] as f64 * sizes[k + 1] as f64 * sizes[j + 1] as f64;
                let whole = cost[i][k] + cost[k + 1][j] + products;
                if whole < cost[i][j] {
                    (cost[i][j], split[i][j]) = (whole, k);
                }
            }
        }
    }
    split
}

fn chain(tensors: &[Tensor], split: &[Vec<usize>], i: usize, j: usize) -> Result<Tensor> {
    if i == j {
        return Ok(tensors[i].clone());
    }
    let k = split[i][j];
    chain(tensors, split, i, k)?.mm(&chain(tensors, split, k + 1, j)?)
}

fn multi_dot_any(tensors: &[Tensor]) -> Result<Tensor> {
    let n = tensors.len();
    ensure!(n >= 2, "multi_dot(): expected at least 2 tensors but got {n}");
    let mut all = tensors.to_vec();
    let (first, last) = (tensors[0].dim(), tensors[n - 1].dim());
    for (place, t) in [("first", &tensors[0]), ("last", &tensors[n - 1])] {
        ensure!(matches!(t.dim(), 1 | 2), "multi_dot(): the {place} tensor must be 1D or 2D but got {}D", t.dim());
    }
    if first == 1 {
        all[0] = tensors[0].unsqueeze(0)?;
    }
    if last == 1 {
        all[n - 1] = tensors[n - 1].unsqueeze(-1)?;
    }
    let mut sizes = vec![all[0].sizes()[0]];
    for (i, t) in all.iter().enumerate() {
        ensure!(t.dim() == 2, "multi_dot(): tensor {i} must be 2D but got {}D", t.dim());
        ensure!(
            t.dtype() == all[0].dtype(),
            "multi_dot(): all tensors must have be the same dtype but tensor 0 is {} and tensor {i} {}",
            all[0].dtype().scalar_type_name(),
            t.dtype().scalar_type_name()
        );
        if i > 0 {
            ensure!(
                sizes[i] == t.sizes()[0],
                "multi_dot(): tensors {} and {i} with shapes {:?} and {:?} cannot be multiplied",
                i - 1,
                tensors[i - 1].sizes(),
                tensors[i].sizes()
            );
        }
        sizes.push(t.sizes()[1]);
    }
    let product = chain(&all, &cheapest(&sizes), 0, n - 1)?;
    let mut result = Dims::new();
    if first == 2 {
        result.push(sizes[0]);
    }
    if last == 2 {
        result.push(sizes[n]);
    }
    product.view(&result)
}
fn chain_matmul_any(tensors: &[Tensor]) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), "chain_matmul(): Expected one or more matrices");
    for t in tensors {
        ensure!(t.dim() == 2, "Tensor dimension is {}, expected 2 instead.", t.dim());
    }
    if tensors.len() == 1 { Ok(tensors[0].clone()) } else { multi_dot_any(tensors) }
}

fn multi_dot_writes(result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "multi_dot(): expected out tensor to have dtype {} but got {}",
        result.cpp_name(),
        out.cpp_name()
    );
    Ok(())
}

op! {
    /// The product of matrices in the cheapest order; the first and the last may be vectors.
    linalg_multi_dot: "linalg_multi_dot(Tensor[] tensors) -> Tensor", Out OUT: "linalg_multi_dot.out(Tensor[] tensors, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(multi_dot_any; tensors));
    samples: |m| match m.dtype { DType::Bool => vec![], _ => vec![
        sample![vec![m.any(&[2, 3]), m.any(&[3, 4]), m.any(&[4, 2])]], sample![vec![m.any(&[3]), m.any(&[3, 4]), m.any(&[4])]],
    ] };
    ulp: 256.0;
    out_rule: crate::OutRule::dtype(multi_dot_writes);
}
op! {
    /// The product of matrices in the cheapest order; see `linalg_multi_dot`.
    chain_matmul: "chain_matmul(Tensor[] matrices) -> Tensor", Out OUT: "chain_matmul.out(Tensor[] matrices, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(chain_matmul_any; tensors));
    samples: |m| match m.dtype { DType::Bool => vec![], _ => vec![sample![vec![m.any(&[2, 3]), m.any(&[3, 4]), m.any(&[4, 2])]]] };
    ulp: 256.0;
}

// ---- products of elements -----------------------------------------------------------------------

fn cross_plan(x: &Tensor, y: &Tensor, dim: i64) -> Result<TensorSpec> {
    ensure!(x.dim() == y.dim(), "linalg.cross: inputs must have the same number of dimensions.");
    ensure!(
        x.size(dim)? == 3 && y.size(dim)? == 3 && x.dim() > 0,
        "linalg.cross: inputs dimension {dim} must have length 3. Got {} and {}",
        x.size(dim)?,
        y.size(dim)?
    );
    let dtype = crate::promotion::result_type_of(&[x, y]);
    Ok(TensorSpec::new(dims::broadcast(x.sizes(), y.sizes())?, dtype, x.device()))
}
fn cross_run(x: &Tensor, y: &Tensor, dim: i64, outs: &[Tensor]) -> Result<()> {
    let out = &outs[0];
    let (x, y) = (x.to_dtype(out.dtype())?.expand(out.sizes())?, y.to_dtype(out.dtype())?.expand(out.sizes())?);
    for i in 0..3 {
        let (a, b) = ((i + 1) % 3, (i + 2) % 3);
        let mut to = out.select(dim, i)?;
        x.select(dim, a)?.mul_out(&y.select(dim, b)?, &mut to)?;
        to.addcmul_(&x.select(dim, b)?, &y.select(dim, a)?, -1)?;
    }
    Ok(())
}

op! {
    /// The cross products of vectors of three elements along `dim`.
    linalg_cross: "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor", Out OUT: "linalg_cross.out(Tensor self, Tensor other, *, int dim=-1, Tensor(a!) out) -> Tensor(a!)";
    Body::Structured { plan: plan!(cross_plan; x, y, dim), run: run!(cross_run; x, y, dim) };
    derivative: backward! {
        self_(g, other: Tensor, dim: i64) => other.conj()?.linalg_cross(g, dim)?,
        other(g, self_: Tensor, dim: i64) => g.linalg_cross(&self_.conj()?, dim)?,
    };
    forward: Forward::Multilinear;
    samples: |m| match m.dtype { DType::Bool => vec![], _ => vec![
        sample![m.any(&[2, 3]), m.any(&[2, 3]), -1], sample![m.any(&[3, 1]), m.any(&[3, 2]), 0],
    ] };
    ulp: 16.0;
    out_rule: crate::OutRule::EXACT;
    fn linalg_cross(&self, other: &Tensor, dim: i64) -> Tensor [self, other, dim];
}

fn cross_any(x: &Tensor, y: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    if let Some(dim) = dim {
        return x.linalg_cross(y, dim);
    }
    let Some(dim) = x.sizes().iter().position(|n| *n == 3) else {
        return Err(crate::Error::runtime("no dimension of size 3 in input"));
    };
    x.linalg_cross(y, dim as i64)
}

op! {
    /// The cross products of vectors of three elements along `dim`, or along the first dim of that size.
    cross: "cross(Tensor self, Tensor other, int? dim=None) -> Tensor", Out OUT: "cross.out(Tensor self, Tensor other, int? dim=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(cross_any; x, y, dim));
    samples: |m| match m.dtype { DType::Bool => vec![], _ => vec![sample![m.any(&[3, 2]), m.any(&[3, 2]), ()]] };
    ulp: 16.0;
    out_rule: crate::OutRule::EXACT;
}

/// Last dims of a Kronecker product's second operand that are too short for rows of their own.
const SHORT_KRON: i64 = 64;

/// An operand of a Kronecker product, its dims between those of the other. Where the `last` dims, of both, are given, they become
/// one: each row is as long as the result's.
fn kron_operand(t: &Tensor, sizes: &[i64], first: bool, last: Option<[i64; 2]>) -> Result<Tensor> {
    let mut shape: Dims = sizes.iter().flat_map(|&s| if first { [s, 1] } else { [1, s] }).collect();
    let t = t.reshape(&shape)?;
    let Some([outer, inner]) = last else { return Ok(t) };
    let at = shape.len() - 2;
    shape.truncate(at);
    shape.extend([outer, inner]);
    let t = t.expand(&shape)?;
    shape.truncate(at);
    shape.push(outer * inner);
    t.reshape(&shape)
}

fn kron_any(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let n = x.dim().max(y.dim());
    let padded = |t: &Tensor| -> Dims { std::iter::repeat_n(1, n - t.dim()).chain(t.sizes().iter().copied()).collect() };
    let (a, b) = (padded(x), padded(y));
    let whole: Dims = a.iter().zip(&b).map(|(a, b)| a * b).collect();
    let last = match (a.last(), b.last()) {
        (Some(&outer), Some(&inner)) if n > 1 && outer > 1 && inner < SHORT_KRON => Some([outer, inner]),
        _ => None,
    };
    kron_operand(x, &a, true, last)?.mul(&kron_operand(y, &b, false, last)?)?.reshape(&whole)
}

op! {
    /// The Kronecker product: each element of `self` times all of `other`.
    kron: "kron(Tensor self, Tensor other) -> Tensor", Out OUT: "kron.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(kron_any; x, y));
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[3, 2])], sample![m.any(&[2]), m.any(&[2, 1, 2])], sample![m.any(&[]), m.any(&[2])]];
    fn kron(&self, other: &Tensor) -> Tensor [self, other];
}

fn trace_any(x: &Tensor) -> Result<Tensor> {
    ensure!(x.dim() == 2, "trace: expected a matrix, but got tensor with dim {}", x.dim());
    x.diagonal(0, 0, 1)?.sum()
}

op! {
    /// The sum of a matrix's diagonal.
    trace: "trace(Tensor self) -> Tensor", Out OUT: "trace.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(trace_any; x));
    derivative: backward! {
        self_(g, self_: Geometry) => {
            let n = self_.sizes[0].min(self_.sizes[1]);
            Tensor::diagonal_backward(&g.expand(&[n])?, &self_.sizes, 0, 0, 1)?
        }
    };
    forward: Forward::Linear;
    samples: |m| vec![sample![m.any(&[3, 4])], sample![m.any(&[0, 2])]];
    fn trace(&self) -> Tensor [self];
}

fn vecdot_any(x: &Tensor, y: &Tensor, dim: i64) -> Result<Tensor> {
    ensure!(
        x.dtype().is_differentiable(),
        "linalg.vecdot: Expected a floating point or complex tensor as input. Got {}",
        x.dtype().scalar_type_name()
    );
    ensure!(
        x.dtype() == y.dtype(),
        "linalg.vecdot: Expected x and y to have the same dtype, but found x of type {} and y of type {} instead",
        x.dtype().scalar_type_name(),
        y.dtype().scalar_type_name()
    );
    x.conj()?.mul(y)?.sum_dim(&[dim], false)
}

op! {
    /// The sums of products of vectors along `dim`, the first conjugated.
    linalg_vecdot: "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", Out OUT: "linalg_vecdot.out(Tensor x, Tensor y, *, int dim=-1, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(vecdot_any; x, y, dim));
    samples: |m| match m.dtype.is_differentiable() {
        false => vec![],
        true => vec![sample![m.any(&[2, 3]), m.any(&[2, 3]), -1], sample![m.any(&[3, 1]), m.any(&[3, 2]), 0]],
    };
    ulp: 32.0;
    out_rule: crate::OutRule::EXACT;
    fn vecdot(&self, other: &Tensor, dim: i64) -> Tensor [self, other, dim];
}
alias! {
    matrix_exp: "matrix_exp(Tensor self) -> Tensor" => linalg_matrix_exp::OP;
    /// The product of vectors, matrices or batches of matrices.
    linalg_matmul: "linalg_matmul(Tensor self, Tensor other) -> Tensor" => super::super::matmul::matmul::OP;
    linalg_matmul_out: "linalg_matmul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)" => super::super::matmul::matmul::OUT;
}

fn linalg_diagonal_any(x: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    x.diagonal(offset, dim1, dim2)
}

op! {
    /// A view of the diagonals of matrices.
    linalg_diagonal: "linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)";
    Body::Composite(kernel!(linalg_diagonal_any; x, offset, dim1, dim2));
    samples: |m| vec![sample![m.any(&[2, 3, 4]), 1, -2, -1]];
}

fn powers(x: &Tensor, n: i64) -> Result<Tensor> {
    let dtype = if x.dtype().is_integral(true) { DType::I64 } else { x.dtype() };
    let one = Tensor::full(&sizes_of(x.sizes(), &[1]), Scalar::Int(1), (dtype, x.device()))?;
    if n <= 1 {
        return one.narrow(-1, 0, n.max(0));
    }
    let factors = x.to_dtype(dtype)?.unsqueeze(-1)?.expand(&sizes_of(x.sizes(), &[n - 1]))?;
    Tensor::cat(&[one, factors.cumprod(-1)?], -1)
}
fn linalg_vander_any(x: &Tensor, n: Option<i64>) -> Result<Tensor> {
    let x = &if x.dim() == 0 { x.unsqueeze(0)? } else { x.clone() };
    let n = n.unwrap_or(x.size(-1)?);
    ensure!(n > 1, "N must be greater than 1.");
    powers(x, n)
}
fn vander_any(x: &Tensor, n: Option<i64>, increasing: bool) -> Result<Tensor> {
    ensure!(x.dim() == 1, "x must be a one-dimensional tensor.");
    let n = n.unwrap_or(x.size(0)?);
    ensure!(n >= 0, "N must be non-negative.");
    let rows = powers(x, n)?;
    if increasing { Ok(rows) } else { rows.flip(&[-1]) }
}

op! {
    /// The powers of each element from 0 to `N - 1`, along a new last dim.
    linalg_vander: "linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor";
    Body::Composite(kernel!(linalg_vander_any; x, n));
    samples: |m| vec![sample![m.any(&[2, 3]), ()], sample![m.any(&[2]), 4]];
    ulp: 32.0;
}
op! {
    /// The powers of each element of a vector as a matrix, the highest first unless `increasing`.
    vander: "vander(Tensor x, int? N=None, bool increasing=False) -> Tensor";
    Body::Composite(kernel!(vander_any; x, n, increasing));
    samples: |m| vec![sample![m.any(&[3]), (), false], sample![m.any(&[2]), 4, true]];
    ulp: 32.0;
}

// ---- equations of tensors -----------------------------------------------------------------------

fn tensorinv_any(x: &Tensor, ind: i64) -> Result<Tensor> {
    ensure!(ind > 0, "Expected a strictly positive integer for 'ind', but got {ind}");
    let ind = (ind as usize).min(x.dim());
    let (rows, columns) = x.sizes().split_at(ind);
    let (m, n): (i64, i64) = (rows.iter().product(), columns.iter().product());
    ensure!(
        m == n,
        "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {n} != {m}"
    );
    inverse_named("inv", &x.reshape(&[n, n])?)?.reshape(&sizes_of(columns, rows))
}
fn tensorsolve_any(a: &Tensor, b: &Tensor, over: Option<&[i64]>) -> Result<Tensor> {
    let mut a = a.clone();
    if let Some(over) = over {
        let wrapped = over.iter().map(|d| wrap_dim(*d, a.dim())).collect::<Result<Vec<_>>>()?;
        let first = (0..a.dim()).filter(|d| !wrapped.contains(d));
        a = a.permute(&first.chain(wrapped.iter().copied()).map(|d| d as i64).collect::<Dims>())?;
    }
    let result = Dims::from_slice(a.sizes().get(b.dim()..).unwrap_or(&[]));
    let (n, m): (i64, i64) = (result.iter().product(), b.numel());
    ensure!(
        n == m && a.dim() >= b.dim(),
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got {n} \
         != {m}"
    );
    a.reshape(&[n, n])?.solve(&b.reshape(&[n])?, true)?.reshape(&result)
}

op! {
    /// The inverse of a tensor as a map from its last dims to its first `ind`.
    linalg_tensorinv: "linalg_tensorinv(Tensor self, int ind=2) -> Tensor", Out OUT: "linalg_tensorinv.out(Tensor self, int ind=2, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(tensorinv_any; x, ind));
    samples: |m| regular(m, &[4, 4]).into_iter().filter_map(|x| Some(sample![x.reshape(&[2, 2, 4]).ok()?, 2])).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::call(|w| w.safely_castable("tensorinv", &[])).row_major();
}
op! {
    /// The solution X of `tensordot(self, X, X.ndim) = other`.
    linalg_tensorsolve: "linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
        Out OUT: "linalg_tensorsolve.out(Tensor self, Tensor other, int[]? dims=None, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(tensorsolve_any; a, b, over));
    samples: |m| regular(m, &[4, 4]).into_iter().filter_map(|x| Some(sample![x.reshape(&[2, 2, 4]).ok()?, m.any(&[2, 2]), ()])).collect();
    ulp: 256.0;
    out_rule: crate::OutRule::call(|w| w.safely_castable("tensorsolve", &[]));
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    chain_matmul::ALL,
    cross::ALL,
    kron::ALL,
    linalg_cross::ALL,
    linalg_diagonal::ALL,
    linalg_matmul::ALL,
    linalg_matmul_out::ALL,
    linalg_matrix_exp::ALL,
    linalg_matrix_power::ALL,
    linalg_multi_dot::ALL,
    linalg_tensorinv::ALL,
    linalg_tensorsolve::ALL,
    linalg_vander::ALL,
    linalg_vecdot::ALL,
    matrix_exp::ALL,
    matrix_power::ALL,
    trace::ALL,
    vander::ALL,
];
