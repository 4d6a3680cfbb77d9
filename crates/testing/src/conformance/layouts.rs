//! Other memory orders of the same values give the same results, and Meta says what the results will look like.

use super::arguments::{call, map};
use super::compare::{Tolerance, differences};
use super::{Case, Verdict};
use flambeau::{Body, Device, ErrorKind, MemoryFormat, Op, Result, Tensor, dims};

/// A copy whose first dim is the closest together.
pub(crate) fn column_major(t: &Tensor) -> Result<Tensor> {
    let order: Vec<usize> = (0..t.dim()).collect();
    strided(t, &dims::strides_in_order(t.sizes(), &order))
}

fn strided(t: &Tensor, strides: &[i64]) -> Result<Tensor> {
    Tensor::empty_strided(t.sizes(), strides, (t.dtype(), t.device()))?.copy_(&t.detach()?)
}

/// A copy with gaps between elements.
fn spread(t: &Tensor) -> Result<Tensor> {
    let strides: Vec<i64> = dims::contiguous_strides(t.sizes()).iter().map(|s| s * 2).collect();
    strided(t, &strides)
}

/// A copy that does not begin where its memory does.
fn offset(t: &Tensor) -> Result<Tensor> {
    let room = Tensor::zeros(&[t.numel() + 3], (t.dtype(), t.device()))?;
    room.as_strided(t.sizes(), &dims::contiguous_strides(t.sizes()), Some(3))?.copy_(&t.detach()?)
}

fn channels_last(t: &Tensor) -> Result<Tensor> {
    let format = match t.dim() {
        4 => MemoryFormat::ChannelsLast,
        5 => MemoryFormat::ChannelsLast3d,
        _ => return Ok(t.clone()),
    };
    strided(t, &dims::strides_for(t.sizes(), format)?)
}

/// The same elements in another order in memory.
type Layout = fn(&Tensor) -> Result<Tensor>;

const LAYOUTS: &[(&str, Layout)] =
    &[("transposed", column_major), ("with gaps", spread), ("offset", offset), ("channels-last", channels_last)];

/// Values do not depend on strides.
pub(crate) fn layouts(case: &Case) -> Verdict {
    if depends_on_memory(case) {
        return Ok(None);
    }
    for (name, change) in LAYOUTS {
        for every in [1, 2] {
            let mut count = 0;
            let args = map(&case.args, &mut |t| {
                count += 1;
                if (count - 1) % every == 0 { change(t) } else { Ok(t.clone()) }
            })?;
            if every == 2 && count < 2 || *name == "channels-last" && count == 0 {
                continue;
            }
            let got = match call(case.op, &args) {
                Ok(got) => got,
                // A view may not exist.
                Err(_) if matches!(case.op.body, Body::AnyBackend(_)) || is_of_a_view(case.op) => continue,
                Err(e) => return Ok(Some(format!("{name} inputs raise: {}", e.message()))),
            };
            let found = if case.random { None } else { differences(&got, &case.expected, tolerance(case))? };
            if let Some(what) = found {
                return Ok(Some(format!("{name} inputs: {what}")));
            }
            if let Some(what) = meta_of(case, &args, &got)? {
                return Ok(Some(format!("{name} inputs: {what}")));
            }
        }
    }
    Ok(None)
}

/// Elements that are repeated without memory of their own give what a copy of them gives.
pub(crate) fn expanded(case: &Case) -> Verdict {
    let repeats = |t: &Tensor, format: Option<MemoryFormat>| -> Result<Tensor> {
        let Some(d) = (0..t.dim()).find(|d| t.sizes()[*d] > 1) else { return Ok(t.clone()) };
        let repeated = t.detach()?.narrow(d as i64, 0, 1)?.expand(t.sizes())?;
        format.map_or(Ok(repeated.clone()), |f| repeated.clone_in(f))
    };
    if case.random || case.op.mutates() || depends_on_memory(case) {
        return Ok(None);
    }
    let args = map(&case.args, &mut |t| repeats(t, None))?;
    let copies = map(&case.args, &mut |t| repeats(t, Some(MemoryFormat::Contiguous)))?;
    match (call(case.op, &args), call(case.op, &copies)) {
        (Ok(got), Ok(want)) => match differences(&got, &want, tolerance(case))? {
            Some(what) => Ok(Some(what)),
            None => meta_of(case, &args, &got),
        },
        (Err(_), Err(_)) => Ok(None),
        (Err(_), Ok(_)) if is_of_a_view(case.op) => Ok(None),
        (Err(e), Ok(_)) => Ok(Some(format!("raises: {}", e.message()))),
        (Ok(_), Err(e)) => Ok(Some(format!("a copy raises: {}", e.message()))),
    }
}

/// What hands out memory as it lies depends on how it lies, and may refuse.
fn depends_on_memory(case: &Case) -> bool {
    case.op.name().starts_with("as_strided") || case.op.mutates() && matches!(case.op.body, Body::AnyBackend(_))
}

/// A view, a copy of one, or what shares memory without counting as one.
fn is_of_a_view(op: &Op) -> bool {
    op.is_view() || op.name().ends_with("_copy") || op.name() == "_unsafe_view"
}

fn tolerance(case: &Case) -> Tolerance {
    if super::is_pointwise(case.op) { Tolerance::Exact } else { Tolerance::OfLargest(64.0) }
}

/// Meta gives the same sizes, dtypes and strides.
pub(crate) fn meta(case: &Case) -> Verdict {
    meta_of(case, &case.args, &case.expected)
}

fn meta_of(case: &Case, args: &[flambeau::OwnedValue], expected: &[Option<Tensor>]) -> Verdict {
    let args = map(args, &mut |t| {
        let meta = Tensor::empty_strided(
            &[dims::storage_extent(t.sizes(), t.strides())? + t.storage_offset()],
            &[1],
            (t.dtype(), Device::META),
        )?;
        meta.as_strided(t.sizes(), t.strides(), Some(t.storage_offset()))
    })?;
    if super::arguments::tensors(&args).is_empty() {
        return Ok(None);
    }
    let got = match call(case.op, &args) {
        Ok(got) => got,
        // The shape of the result, or the result itself, depends on data that is not there.
        Err(e) if e.kind() == ErrorKind::NotImplemented || e.message().contains("meta") => return Ok(None),
        Err(e) => return Ok(Some(format!("Meta raises: {}", e.message()))),
    };
    for (i, (got, want)) in got.iter().zip(expected).enumerate() {
        let (Some(got), Some(want)) = (got, want) else { continue };
        if !got.device().is_meta() {
            // Numbers that leave the device, and the like.
            continue;
        }
        if got.sizes() != want.sizes() || got.dtype() != want.dtype() {
            return Ok(Some(format!(
                "Meta's result {i} is {} {:?} where {} {:?} is right",
                got.dtype(),
                got.sizes(),
                want.dtype(),
                want.sizes()
            )));
        }
        // Strides of dims of one element, and of tensors without any, mean nothing.
        let tells = |d: &usize| want.numel() > 0 && want.sizes()[*d] > 1;
        if !(0..want.dim()).filter(tells).all(|d| got.strides()[d] == want.strides()[d]) {
            return Ok(Some(format!(
                "Meta's result {i} of sizes {:?} has strides {:?} where the CPU's are {:?}",
                want.sizes(),
                got.strides(),
                want.strides()
            )));
        }
    }
    match got.len() == expected.len() {
        true => Ok(None),
        false => Ok(Some(format!("Meta gives {} results where {} are right", got.len(), expected.len()))),
    }
}
