//! Scaled dot-product attention.

use crate::dims::{self, Dims};
use crate::{Body, DType, Op, Result, Tensor, Value, backward, ensure, sample};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::storage::LockSet;
use flambeau_cpu::attention::{
    Attention, AttentionElement, AttentionSizes, Mask, Operand4, Result4,
};

/// The geometry of a call on (B, H, L, E) tensors.
fn sizes_of(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<AttentionSizes> {
    ensure!(
        q.dim() == 4 && k.dim() == 4 && v.dim() == 4,
        "scaled_dot_product_attention: expected four-dimensional query, key and value, got {:?}, {:?} and {:?}",
        q.sizes(),
        k.sizes(),
        v.sizes()
    );
    let (a, b, c) = (q.sizes(), k.sizes(), v.sizes());
    ensure!(
        a[0] == b[0] && b[0] == c[0] && b[1] == c[1] && b[1] > 0 && a[1] % b[1] == 0 && b[2] == c[2] && a[3] == b[3],
        "scaled_dot_product_attention: query {a:?}, key {b:?} and value {c:?} do not fit each other"
    );
    ensure!(
        q.dtype() == k.dtype() && k.dtype() == v.dtype(),
        "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and value.dtype: {} \
         instead.",
        q.dtype(),
        k.dtype(),
        v.dtype()
    );
    let u = |i: i64| i as usize;
    Ok(AttentionSizes {
        batch: u(a[0]), heads: u(a[1]), key_heads: u(b[1]), queries: u(a[2]), keys: u(b[2]), size: u(a[3]), value_size: u(c[3]),
    })
}

fn operand<T>(t: &Tensor) -> Operand4<T> {
    let s = t.strides();
    Operand4 { start: t.data_ptr() as *const T, strides: [s[0] as isize, s[1] as isize, s[2] as isize, s[3] as isize] }
}

fn result<T>(t: &Tensor) -> Result4<T> {
    let s = t.strides();
    Result4 { start: t.data_ptr() as *mut T, strides: [s[0] as isize, s[1] as isize, s[2] as isize, s[3] as isize] }
}

/// A mask broadcast to (B, H, L, S), of a dtype that the kernels take.
fn mask_of(mask: Option<&Tensor>, q: &Tensor, k: &Tensor) -> Result<Option<Tensor>> {
    let Some(m) = mask else { return Ok(None) };
    let target = [q.sizes()[0], q.sizes()[1], q.sizes()[2], k.sizes()[2]];
    ensure!(
        dims::is_expandable_to(m.sizes(), &target),
        "The expanded size of the tensor must match: attn_mask of shape {:?} does not broadcast to {target:?}",
        m.sizes()
    );
    let m = match m.dtype() {
        DType::Bool => m.clone(),
        d if d == q.dtype() => m.clone(),
        d if d == q.dtype().compute() => m.clone(),
        d => {
            return Err(crate::Error::runtime(format!(
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {d} and \
                 query.dtype: {}",
                q.dtype()
            )));
        }
    };
    Ok(Some(m.expand(&target)?))
}

fn mask_operand<T: AttentionElement>(mask: &Option<Tensor>) -> Mask<T> {
    match mask {
        None => Mask::None,
        Some(m) if m.dtype() == DType::Bool => Mask::Boolean(operand(m)),
        Some(m) if m.dtype() == T::DTYPE => Mask::Additive(operand(m)),
        Some(m) => Mask::AdditiveWide(operand(m)),
    }
}

fn floats(q: &Tensor) -> Result<()> {
    match q.dtype().is_floating_point() {
        true => Ok(()),
        false => Err(crate::Error::not_implemented(format!(
            "\"scaled_dot_product_attention\" not implemented for '{}'",
            q.dtype().scalar_type_name()
        ))),
    }
}

fn scale_of(scale: Option<f64>, q: &Tensor) -> f64 {
    scale.unwrap_or_else(|| 1.0 / (q.sizes()[3].max(1) as f64).sqrt())
}

/// The result's strides: dense, in the query's order of dims.
fn output_strides(sizes: &[i64], q: &Tensor) -> Dims {
    dims::strides_in_order(sizes, &dims::stride_order(q.sizes(), q.strides()))
}

fn flash_cpu(
    q: &Tensor, k: &Tensor, v: &Tensor, dropout: f64, causal: bool, mask: Option<&Tensor>, scale: Option<f64>,
) -> Result<(Tensor, Tensor)> {
    floats(q)?;
    ensure!(dropout == 0.0, "_scaled_dot_product_flash_attention_for_cpu: Currently do not support dropout > 0");
    let sizes = sizes_of(q, k, v)?;
    let mask = mask_of(mask, q, k)?;
    let shape = Dims::from_slice(&[q.sizes()[0], q.sizes()[1], q.sizes()[2], v.sizes()[3]]);
    let strides = output_strides(&shape, q);
    let out = Tensor::fresh_strided(q.device(), q.dtype(), shape, strides)?;
    let lse = Tensor::fresh(q.device(), q.dtype().compute(), Dims::from_slice(&q.sizes()[..3]))?;
    if out.numel() == 0 && lse.numel() == 0 {
        return Ok((out, lse));
    }
    let _locks = LockSet::new([q, k, v].into_iter().chain(mask.as_ref()).map(|t| (t.storage(), false)))?;
    dispatch_dtype!(q.dtype(), T in [floats] => {
        let attention = Attention::<T> {
            sizes, q: operand(q), k: operand(k), v: operand(v), mask: mask_operand(&mask), causal, scale: scale_of(scale, q),
        };
        // SAFETY: the sizes fit the operands, which are locked; the outputs are fresh.
        unsafe { AttentionElement::forward(&attention, result(&out), lse.data_ptr() as *mut _) }
    }; else {});
    Ok((out, lse))
}

fn flash_meta(
    q: &Tensor, k: &Tensor, v: &Tensor, _dropout: f64, _causal: bool, mask: Option<&Tensor>, _scale: Option<f64>,
) -> Result<(Tensor, Tensor)> {
    floats(q)?;
    sizes_of(q, k, v)?;
    mask_of(mask, q, k)?;
    let shape = Dims::from_slice(&[q.sizes()[0], q.sizes()[1], q.sizes()[2], v.sizes()[3]]);
    let strides = output_strides(&shape, q);
    Ok((
        Tensor::fresh_strided(crate::Device::META, q.dtype(), shape, strides)?,
        Tensor::fresh(crate::Device::META, q.dtype().compute(), Dims::from_slice(&q.sizes()[..3]))?,
    ))
}

op! {
    /// Attention with memory linear in the sequence length, for (B, H, L, E) tensors; also gives each query's log-sum-exp.
    flash_attention: "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)";
    Body::Kernels {
        cpu: kernel!(flash_cpu; q, k, v, dropout, causal, mask, scale),
        meta: kernel!(flash_meta; q, k, v, dropout, causal, mask, scale),
    };
    derivative: backward! {
        (query, key, value)(g, query: Tensor, key: Tensor, value: Tensor, dropout_p: f64, is_causal: bool, attn_mask: Option<Tensor>, scale: Option<f64>, result0: Tensor, result1: Tensor) =>
            flash_attention_backward::OP.call(&[
                g.into(), (&query).into(), (&key).into(), (&value).into(), (&result0).into(), (&result1).into(), dropout_p.into(),
                is_causal.into(), (&attn_mask).into(), scale.into(),
            ])?.list()?
    };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![
            sample![m.any(&[1, 2, 3, 4]), m.any(&[1, 2, 5, 4]), m.any(&[1, 2, 5, 2]), 0.0, false, (), ()],
            sample![m.any(&[2, 2, 3, 4]), m.any(&[2, 1, 3, 4]), m.any(&[2, 1, 3, 4]), 0.0, true, (), 0.5],
        ],
        false => vec![],
    };
    ulp: 256.0;
}

fn backward_cpu(
    g: &Tensor, q: &Tensor, k: &Tensor, v: &Tensor, out: &Tensor, lse: &Tensor, _dropout: f64, causal: bool, mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<(Tensor, Tensor, Tensor)> {
    floats(q)?;
    let sizes = sizes_of(q, k, v)?;
    let mask = mask_of(mask, q, k)?;
    ensure!(
        g.sizes() == out.sizes() && out.sizes() == [q.sizes()[0], q.sizes()[1], q.sizes()[2], v.sizes()[3]] && g.dtype() == q.dtype(),
        "scaled_dot_product_attention: the gradient {:?} does not fit the output {:?}",
        g.sizes(),
        out.sizes()
    );
    let lse = lse.contiguous()?;
    ensure!(lse.sizes() == &q.sizes()[..3] && lse.dtype() == q.dtype().compute(), "scaled_dot_product_attention: the log-sum-exps do not fit");
    let like = |t: &Tensor| Tensor::fresh(t.device(), t.dtype(), Dims::from_slice(t.sizes()));
    let (dq, dk, dv) = (like(q)?, like(k)?, like(v)?);
    let _locks = LockSet::new([g, q, k, v, out, &lse].into_iter().chain(mask.as_ref()).map(|t| (t.storage(), false)))?;
    dispatch_dtype!(q.dtype(), T in [floats] => {
        let attention = Attention::<T> {
            sizes, q: operand(q), k: operand(k), v: operand(v), mask: mask_operand(&mask), causal, scale: scale_of(scale, q),
        };
        // SAFETY: the sizes fit the operands, which are locked; the outputs are fresh.
        unsafe {
            AttentionElement::backward(&attention, operand(out), lse.data_ptr() as *const _, operand(g), [result(&dq), result(&dk), result(&dv)]);
        }
    }; else {});
    Ok((dq, dk, dv))
}

fn backward_meta(
    _g: &Tensor, q: &Tensor, k: &Tensor, v: &Tensor, _out: &Tensor, _lse: &Tensor, _dropout: f64, _causal: bool, _mask: Option<&Tensor>,
    _scale: Option<f64>,
) -> Result<(Tensor, Tensor, Tensor)> {
    floats(q)?;
    sizes_of(q, k, v)?;
    let like = |t: &Tensor| Tensor::fresh(crate::Device::META, t.dtype(), Dims::from_slice(t.sizes()));
    Ok((like(q)?, like(k)?, like(v)?))
}

op! {
    /// The gradients of an attention with respect to query, key and value.
    flash_attention_backward: "_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)";
    Body::Kernels {
        cpu: kernel!(backward_cpu; g, q, k, v, out, lse, dropout, causal, mask, scale),
        meta: kernel!(backward_meta; g, q, k, v, out, lse, dropout, causal, mask, scale),
    };
    derivative: backward! {
        (grad_out, query, key, value)([c], grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, is_causal: bool, attn_mask: Option<Tensor>, scale: Option<f64>) =>
            // Attention written out, and differentiated twice.
            c.differentiate(&[Some(&grad_out), Some(&query), Some(&key), Some(&value)], |leaves| {
                let [Some(g), Some(q), Some(k), Some(v)] = leaves else { return Ok(vec![]) };
                let gqa = q.sizes()[1] != k.sizes()[1];
                let y = double_masked(q, k, v, attn_mask.as_ref(), is_causal, scale, gqa)?;
                let inputs = [q.clone(), k.clone(), v.clone()];
                let first = crate::autograd::grad(&[y], &inputs, &[Some(g.clone())], true, true, true)?;
                first.into_iter().zip(&inputs).map(|(d, x)| d.map_or_else(|| x.zeros_like(), Ok)).collect()
            })?
    };
    samples: |m| {
        let (q, k, v) = (m.any(&[1, 2, 3, 4]), m.any(&[1, 2, 5, 4]), m.any(&[1, 2, 5, 2]));
        let outputs = flash_attention::OP.call(&[(&q).into(), (&k).into(), (&v).into(), 0.0.into(), false.into(), Value::None, Value::None]);
        match outputs.and_then(crate::Outputs::list).as_deref() {
            Ok([out, lse]) => vec![sample![m.any(&[1, 2, 3, 2]), q, k, v, out.clone(), lse.clone(), 0.0, false, (), ()]],
            _ => vec![],
        }
    };
    ulp: 256.0;
}

/// Attention as PyTorch's `math` path: every step an operator of its own, halves computed in `float32`. With `gqa` each
/// head of key and value serves several neighbouring heads of the query.
fn math(
    q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>, dropout: f64, causal: bool, scale: Option<f64>, gqa: bool,
) -> Result<Tensor> {
    ensure!(!(causal && mask.is_some()), "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
    let given = q.dtype();
    let wide = |t: &Tensor| t.to_dtype(given.compute());
    let (q, k, v) = (wide(q)?, wide(k)?, wide(v)?);
    let (n, s) = (q.size(-2)?, k.size(-2)?);
    let factor = scale.unwrap_or_else(|| 1.0 / (q.size(-1).unwrap_or(1).max(1) as f64).sqrt());
    let repeat = |t: &Tensor| -> Result<Tensor> {
        let (heads, served) = (t.size(-3)?, q.size(-3)?);
        ensure!(
            heads > 0 && served % heads == 0,
            "Number of heads in key and value must divide the number of heads in query"
        );
        if heads == served {
            return Ok(t.clone());
        }
        let d = t.dim() - 3;
        let mut wide = Dims::from_slice(t.sizes());
        wide.insert(d + 1, served / heads);
        let mut merged = Dims::from_slice(t.sizes());
        merged[d] = served;
        t.unsqueeze(d as i64 + 1)?.expand(&wide)?.reshape(&merged)
    };
    let (k, v) = if gqa { (repeat(&k)?, repeat(&v)?) } else { (k, v) };
    // The factor is shared by both sides, so that neither leaves its range.
    let root = factor.abs().sqrt();
    let mut scores = q.mul(root.copysign(factor))?.matmul(&k.transpose(-2, -1)?.mul(root)?)?;
    let lower = match causal {
        true => Some(Tensor::ones(&[n, s], (DType::Bool, q.device()))?.tril(0)?),
        false => None,
    };
    if let Some(m) = lower.as_ref().or(mask) {
        let added = match m.dtype() {
            DType::Bool => m.where_(0.0, &Tensor::full(&[], f64::NEG_INFINITY, (q.dtype(), q.device()))?)?,
            _ => m.clone(),
        };
        scores = scores.add(&added)?;
    }
    // A query that may attend to nothing gives zero, and gets no gradient.
    let mut p = scores.safe_softmax(-1, None)?;
    if dropout > 0.0 {
        p = p.dropout(dropout, true)?;
    }
    p.matmul(&v)?.to_dtype(given)
}

/// [`math`] where a causal mask may come with another one, as the fused kernel takes them.
fn double_masked(
    q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>, causal: bool, scale: Option<f64>, gqa: bool,
) -> Result<Tensor> {
    let Some(m) = mask.filter(|_| causal) else { return math(q, k, v, mask, 0.0, causal, scale, gqa) };
    let lower = Tensor::ones(&[q.size(-2)?, k.size(-2)?], (DType::Bool, q.device()))?.tril(0)?;
    let both = match m.dtype() {
        DType::Bool => m.logical_and(&lower)?,
        _ => m.masked_fill(&lower.logical_not()?, f64::NEG_INFINITY)?,
    };
    math(q, k, v, Some(&both), 0.0, false, scale, gqa)
}

/// Whether PyTorch takes its fused CPU kernel.
fn is_fused(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>, dropout: f64, gqa: bool) -> bool {
    if q.dim() != 4 || k.dim() != 4 || v.dim() != 4 || dropout != 0.0 || !q.dtype().is_floating_point() {
        return false;
    }
    let broadcasts = |m: &Tensor| {
        let target = [q.sizes()[0], q.sizes()[1], q.sizes()[2], k.sizes()[2]];
        matches!(m.dim(), 2 | 4) && !m.requires_grad() && m.tangent().is_none() && dims::is_expandable_to(m.sizes(), &target)
    };
    mask.is_none_or(broadcasts)
        && (q.sizes()[1] == k.sizes()[1] || gqa)
        && q.sizes()[3] > 0
        && [q, k, v].iter().all(|t| t.numel() > 0)
        && sizes_of(q, k, v).is_ok()
}

fn attention_any(
    q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>, dropout: f64, causal: bool, scale: Option<f64>, gqa: bool,
) -> Result<Tensor> {
    ensure!(
        q.dtype() == k.dtype() && k.dtype() == v.dtype(),
        "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and value.dtype: {} \
         instead.",
        q.dtype().cpp_name(),
        k.dtype().cpp_name(),
        v.dtype().cpp_name()
    );
    ensure!(
        q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2,
        "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {} key.dim: {} and value.dim: {} \
         instead.",
        q.dim(),
        k.dim(),
        v.dim()
    );
    if let Some(m) = mask {
        ensure!(
            m.dtype() == DType::Bool || m.dtype() == q.dtype() || m.dtype() == DType::F32,
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {} and  query.dtype: \
             {} instead.",
            m.dtype().cpp_name(),
            q.dtype().cpp_name()
        );
    }
    if !is_fused(q, k, v, mask, dropout, gqa) {
        return math(q, k, v, mask, dropout, causal, scale, gqa);
    }
    if !FastPath::AttentionFlash.is_on() {
        return double_masked(q, k, v, mask, causal, scale, gqa);
    }
    let unit = |t: &Tensor| t.sizes()[3] == 1 || t.strides()[3] == 1;
    let regular = q.sizes()[3] == v.sizes()[3] && [q, k, v].into_iter().all(unit);
    if !regular && q.dtype() != q.dtype().compute() {
        // Where PyTorch takes the other path halves are rounded at other places.
        return math(q, k, v, mask, dropout, causal, scale, gqa);
    }
    // ... and its results are row-major.
    let q = if regular { q.clone() } else { q.contiguous()? };
    let mask = match mask {
        Some(m) if m.dtype() == DType::F32 && q.dtype() == DType::F64 => Some(m.to_dtype(DType::F64)?),
        m => m.cloned(),
    };
    flash_attention::OP
        .call(&[(&q).into(), k.into(), v.into(), Value::Float(0.0), causal.into(), (&mask).into(), scale.into()])?
        .list()?
        .into_iter()
        .next()
        .ok_or_else(|| crate::Error::runtime("attention gave nothing"))
}

op! {
    /// `softmax(query @ key^T * scale + mask) @ value`: query (..., L, E), key (..., S, E), value (..., S, V). A boolean mask
    /// says where to attend, a float one is added; `is_causal` lets query `i` attend to keys up to `i`; with `enable_gqa` a
    /// head of key and value serves several neighbouring heads of the query.
    scaled_dot_product_attention: "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor";
    Body::Composite(kernel!(attention_any; q, k, v, mask, dropout, causal, scale, gqa));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![
            sample![m.any(&[2, 3, 4]), m.any(&[2, 5, 4]), m.any(&[2, 5, 4]), (), 0.0, false, (), false],
            sample![m.any(&[1, 2, 3, 4]), m.any(&[1, 2, 3, 4]), m.any(&[1, 2, 3, 4]), m.any(&[3, 3]), 0.0, false, (), false],
        ],
        false => vec![],
    };
    ulp: 256.0;
    fn scaled_dot_product_attention(&self, key: &Tensor, value: &Tensor, attn_mask: Option<&Tensor>, dropout_p: f64, is_causal: bool, scale: Option<f64>, enable_gqa: bool) -> Tensor
        [self, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[flash_attention::ALL, flash_attention_backward::ALL, scaled_dot_product_attention::ALL];
