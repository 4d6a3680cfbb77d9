//! Numbers from their parts and into them: complex numbers of two real ones, mantissa and exponent.

use crate::dims::{self, Dims};
use crate::samples::{Maker, Sample};
use crate::{Body, DType, Op, OutRule, Result, Tensor, TensorSpec, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::math::Float;

fn check_pair(a: &Tensor, b: &Tensor) -> Result<DType> {
    let fits = |t: &Tensor| matches!(t.dtype(), DType::F32 | DType::F64);
    ensure!(
        fits(a) && fits(b),
        "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
        a.dtype().scalar_type_name(),
        b.dtype().scalar_type_name()
    );
    ensure!(
        a.dtype() == b.dtype(),
        "Expected object of scalar type {} but got scalar type {} for second argument",
        a.dtype().scalar_type_name(),
        b.dtype().scalar_type_name()
    );
    Ok(if a.dtype() == DType::F64 { DType::Complex128 } else { DType::Complex64 })
}

/// Where the result of two tensors, broadcast, has its dims: as an operator of elements has them.
fn joint_strides(sizes: &[i64], tensors: &[&Tensor]) -> Dims {
    let strides: Vec<Dims> = tensors.iter().map(|t| dims::ordering_strides(t.sizes(), t.strides(), sizes)).collect();
    let lists: Vec<&[i64]> = strides.iter().map(|s| &s[..]).collect();
    dims::strides_in_order(sizes, &crate::pointwise::operand_order(sizes, &lists))
}

fn complex_any(real: &Tensor, imag: &Tensor) -> Result<Tensor> {
    let dtype = check_pair(real, imag)?;
    let sizes = dims::broadcast(real.sizes(), imag.sizes())?;
    let strides = joint_strides(&sizes, &[real, imag]);
    let out = Tensor::fresh_strided(real.device(), dtype, sizes, strides)?;
    out.real()?.copy_(real)?;
    out.imag()?.copy_(imag)?;
    Ok(out)
}

fn complex_writes(result: DType, out: DType) -> Result<()> {
    ensure!(
        result == out,
        "Expected object of scalar type {} but got scalar type {} for argument 'out'",
        result.scalar_type_name(),
        out.scalar_type_name()
    );
    Ok(())
}

fn pairs(m: &mut Maker) -> Vec<Sample> {
    match m.dtype {
        DType::F32 | DType::F64 => vec![sample![m.any(&[2, 3]), m.any(&[3])], sample![m.any(&[2, 3]), m.any(&[])]],
        _ => vec![],
    }
}

op! {
    /// The complex numbers with these real and imaginary parts.
    complex: "complex(Tensor real, Tensor imag) -> Tensor",
        Out OUT: "complex.out(Tensor real, Tensor imag, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(complex_any; real, imag));
    derivative: backward! { real(g) => g.real()?, imag(g) => g.imag()? };
    samples: pairs;
    out_rule: OutRule::dtype(complex_writes);
}

impl Tensor {
    /// The complex numbers with these real and imaginary parts, broadcast.
    ///
    /// # Errors
    /// When the parts are not both `f32` or both `f64`, or do not broadcast.
    pub fn complex(real: &Tensor, imag: &Tensor) -> Result<Tensor> {
        complex::OP.call(&[real.into(), imag.into()])?.one()
    }
}

fn polar_any(abs: &Tensor, angle: &Tensor) -> Result<Tensor> {
    check_pair(abs, angle)?;
    Tensor::complex(&abs.mul(&angle.cos()?)?, &abs.mul(&angle.sin()?)?)
}

op! {
    /// The complex numbers with these magnitudes and angles.
    polar: "polar(Tensor abs, Tensor angle) -> Tensor",
        Out OUT: "polar.out(Tensor abs, Tensor angle, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(polar_any; abs, angle));
    samples: pairs;
    ulp: 4.0;
    out_rule: OutRule::dtype(complex_writes);
}

// ---- mantissa and exponent ----------------------------------------------------------------------

fn frexp_plan(x: &Tensor) -> Result<[TensorSpec; 2]> {
    ensure!(x.dtype().is_floating_point(), "torch.frexp() only supports floating-point dtypes");
    let mantissa =
        TensorSpec::like(Dims::from_slice(x.sizes()), x).strided(dims::preserved_strides(x.sizes(), x.strides()));
    Ok([mantissa.clone(), mantissa.dtype(DType::I32)])
}
fn frexp_run(x: &Tensor, outs: &[Tensor]) -> Result<()> {
    if x.numel() == 0 {
        return Ok(());
    }
    let x = x.detach()?.to_dtype(x.dtype().compute())?.contiguous()?;
    let fresh = |dtype: DType| Tensor::fresh(crate::Device::CPU, dtype, Dims::from_slice(x.sizes()));
    let (mantissa, exponent) = (fresh(x.dtype())?, fresh(DType::I32)?);
    {
        let locks = [(x.storage(), false), (mantissa.storage(), true), (exponent.storage(), true)];
        let _locks = LockSet::new(locks)?;
        let n = x.numel() as usize;
        crate::dispatch_dtype!(x.dtype(), T in [reals] => {
            // SAFETY: all are contiguous, of `n` elements of these types, and locked.
            let (x, mantissa, exponent) = unsafe { (
                std::slice::from_raw_parts(x.data_ptr().cast::<T>(), n),
                std::slice::from_raw_parts_mut(mantissa.data_ptr().cast::<T>(), n),
                std::slice::from_raw_parts_mut(exponent.data_ptr().cast::<i32>(), n),
            ) };
            for ((x, m), e) in x.iter().zip(mantissa).zip(exponent) {
                (*m, *e) = Float::frexp(*x);
            }
        }; else return Err(super::reduce::not_for("frexp_cpu", x.dtype())));
    }
    outs[0].copy_(&mantissa)?;
    outs[1].copy_(&exponent)?;
    Ok(())
}

fn frexp_writes(write: &crate::Write<'_, '_>) -> Result<()> {
    let (result, out) = (write.result.cpp_name(), write.out.cpp_name());
    match write.output {
        0 => ensure!(result == out, "torch.frexp() expects mantissa to have dtype {result} but got {out}"),
        _ => ensure!(result == out, "torch.frexp() expects exponent to have int dtype but got {out}"),
    }
    Ok(())
}

op! {
    /// A mantissa in [0.5, 1) and an exponent such that each element is `mantissa * 2^exponent`.
    frexp: "frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)",
        Out OUT: "frexp.Tensor_out(Tensor self, *, Tensor(a!) mantissa, Tensor(b!) exponent) -> (Tensor(a!) mantissa, Tensor(b!) exponent)";
    Body::Structured { plan: plan!(frexp_plan; x), run: run!(frexp_run; x) };
    derivative: backward! {
        self_(g, exponent: Tensor) => g.mul(&Tensor::full(&[], 2, (g.dtype(), g.device()))?.pow(&exponent.neg()?)?)?
    };
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.uniform(&[2, 3], 0.6, 3.7)]] } else { vec![] };
    out_rule: OutRule::call(frexp_writes);
    fn frexp(&self) -> (Tensor, Tensor) [self];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[complex::ALL, frexp::ALL, polar::ALL];
