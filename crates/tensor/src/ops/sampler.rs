//! Images sampled at given places, and the places of affine maps.
//!
//! A sample is a sum of a few elements with weights that depend on the place. Samples and gradients have kernels; second
//! derivatives are those of the same written as recorded operators ([`Sampler::written_out`]). Places, padding and rounding
//! follow PyTorch's conventions.

use crate::access::{elements, elements_mut};
use crate::dims::Dims;
use crate::value::OwnedValue;
use crate::{Body, DType, Element, Error, Op, Outputs, Result, Tensor, TensorOptions, TensorSpec, backward, ensure, sample};
use flambeau_base::storage::LockSet;
use flambeau_cpu::sample::{self as kernels, Images, Interpolation, Padding, Sampled};

struct Sampler {
    padding: Padding,
    interpolation: Interpolation,
    align_corners: bool,
}

/// `value`, and none of its gradient.
fn constant(t: &Tensor) -> Result<Tensor> {
    t.detach()
}

impl Sampler {
    fn of(interpolation: i64, padding: i64, align_corners: bool) -> Result<Sampler> {
        let interpolation = match interpolation {
            0 => Interpolation::Linear,
            1 => Interpolation::Nearest,
            2 => Interpolation::Cubic,
            other => return Err(Error::runtime(format!("grid_sampler(): unknown interpolation mode {other}"))),
        };
        let padding = match padding {
            0 => Padding::Zeros,
            1 => Padding::Border,
            2 => Padding::Reflection,
            other => return Err(Error::runtime(format!("grid_sampler(): unknown padding mode {other}"))),
        };
        Ok(Sampler { padding, interpolation, align_corners })
    }

    /// From [-1, 1] to positions.
    fn position(&self, at: &Tensor, size: i64) -> Result<Tensor> {
        match self.align_corners {
            true => at.add(1)?.div(2)?.mul(size - 1),
            false => at.add(1)?.mul(size)?.sub(1)?.div(2),
        }
    }

    /// Positions moved into the image, as the padding says. At the borders the gradient is zero, and NaN is at 0.
    fn padded(&self, at: &Tensor, size: i64) -> Result<Tensor> {
        let at = match self.padding {
            Padding::Zeros => return Ok(at.clone()),
            Padding::Border => at.clone(),
            Padding::Reflection => self.reflected(at, size)?,
        };
        let (zeros, last) = (at.zeros_like()?, at.full_like(size - 1)?);
        let inner = Tensor::where_(&at.ge(size - 1)?, &last, &at)?;
        Tensor::where_(&at.gt(0)?, &inner, &zeros)
    }

    /// Reflected at the centres of the outermost elements, or at their edges, as often as it takes.
    fn reflected(&self, at: &Tensor, size: i64) -> Result<Tensor> {
        let (low, span) = if self.align_corners { (0.0, (size - 1) as f64) } else { (-0.5, size as f64) };
        if span == 0.0 {
            return at.zeros_like();
        }
        let from = at.sub(low)?;
        let from = Tensor::where_(&from.lt(0)?, &from.neg()?, &from)?;
        let flips = constant(&from)?.div(span)?.floor()?;
        let rest = from.sub(&flips.mul(span)?)?;
        let even = flips.remainder(2)?.eq(0)?;
        Tensor::where_(&even, &rest.add(low)?, &rest.rsub(span)?.add(low)?)
    }

    /// The neighbours along an axis that a position reads: which are inside, and with which weights.
    fn neighbours(&self, at: &Tensor, size: i64) -> Result<Vec<Neighbour>> {
        // Also what is not finite is outside, far enough that no neighbour is inside.
        let far = |x: &Tensor| {
            let usable = constant(x)?.abs()?.lt(1e9)?;
            Tensor::where_(&usable, x, &x.full_like(-100)?)
        };
        let neighbour = |place: Tensor, weight: Tensor| -> Result<Neighbour> {
            let inside = place.ge(0)?.logical_and(&place.le(size - 1)?)?;
            let index = place.clamp(0, size - 1)?.to_dtype(DType::I64)?;
            Ok(Neighbour { index, weight, inside })
        };
        match self.interpolation {
            Interpolation::Nearest => {
                let at = far(&self.padded(&constant(at)?, size)?)?;
                let ones = at.ones_like()?;
                Ok(vec![neighbour(at.round()?, ones)?])
            }
            Interpolation::Linear => {
                let at = far(&self.padded(at, size)?)?;
                let low = constant(&at)?.floor()?;
                let share = at.sub(&low)?;
                Ok(vec![neighbour(low.clone(), share.rsub(1)?)?, neighbour(low.add(1)?, share)?])
            }
            Interpolation::Cubic => {
                let at = far(at)?;
                let low = constant(&at)?.floor()?;
                let t = at.sub(&low)?;
                let (a, u) = (-0.75, t.rsub(1)?);
                // Keys' kernel; every neighbour is padded by itself.
                let near = |x: &Tensor| x.mul(a + 2.0)?.sub(a + 3.0)?.mul(x)?.mul(x)?.add(1);
                let outer = |x: &Tensor| x.mul(a)?.sub(5.0 * a)?.mul(x)?.add(8.0 * a)?.mul(x)?.sub(4.0 * a);
                let weights = [outer(&t.add(1)?)?, near(&t)?, near(&u)?, outer(&u.add(1)?)?];
                let place = |k: i64| self.padded(&low.add(k - 1)?, size);
                (0i64..).zip(weights).map(|(k, w)| neighbour(place(k)?, w)).collect()
            }
        }
    }

    /// The samples (N, C, ...) of images (N, C, ...) at places (N, ..., dims), of recorded operators.
    fn written_out(&self, x: &Tensor, grid: &Tensor) -> Result<Tensor> {
        let n = x.dim() - 2;
        let (batch, channels) = (x.sizes()[0], x.sizes()[1]);
        let dtype = x.dtype();
        let wide = x.to_dtype(dtype.compute())?.reshape(&[batch, channels, x.sizes()[2..].iter().product()])?;
        let mut sizes = vec![batch, channels];
        sizes.extend_from_slice(&grid.sizes()[1..=n]);
        let places = sizes[2..].iter().product::<i64>();
        let grid = grid.reshape(&[batch, places, n as i64])?;
        // Along each axis, the last of the image being the first of a place.
        let axes = (0..n)
            .map(|a| {
                let size = x.sizes()[2 + a];
                let at = grid.select(2, (n - 1 - a) as i64)?;
                // Positions are rounded as the grid is.
                self.neighbours(&self.position(&at, size)?.to_dtype(dtype.compute())?, size)
            })
            .collect::<Result<Vec<_>>>()?;
        let mut corners: Vec<Option<Neighbour>> = vec![None];
        for (a, axis) in axes.iter().enumerate() {
            let size = x.sizes()[2 + a];
            let mut next = Vec::with_capacity(corners.len() * axis.len());
            for corner in &corners {
                for neighbour in axis {
                    next.push(Some(match corner {
                        None => neighbour.clone(),
                        Some(c) => c.and(neighbour, size)?,
                    }));
                }
            }
            corners = next;
        }
        let mut sum: Option<Tensor> = None;
        for corner in corners.into_iter().flatten() {
            let index = corner.index.unsqueeze(1)?.expand(&[batch, channels, places])?;
            let weight = corner.weight.unsqueeze(1)?;
            // What is outside does not count, even where it is not finite.
            let outside = corner.inside.logical_not()?.unsqueeze(1)?;
            let part = wide.gather(2, &index)?.masked_fill(&outside, 0)?.mul(&weight.masked_fill(&outside, 0)?)?;
            sum = Some(match sum {
                None => part,
                Some(s) => s.add(&part)?,
            });
        }
        let sum = sum.ok_or_else(|| Error::runtime("grid_sampler(): no dims to sample"))?;
        sum.to_dtype(dtype)?.view(&sizes)
    }
}

/// A whole position along the axes so far, flat, and its weight.
#[derive(Clone)]
struct Neighbour {
    index: Tensor,
    weight: Tensor,
    inside: Tensor,
}

impl Neighbour {
    /// Also a position along the next axis, of `size`.
    fn and(&self, next: &Neighbour, size: i64) -> Result<Neighbour> {
        Ok(Neighbour {
            index: self.index.mul(size)?.add(&next.index)?,
            weight: self.weight.mul(&next.weight)?,
            inside: self.inside.logical_and(&next.inside)?,
        })
    }
}

fn check(x: &Tensor, grid: &Tensor, n: usize) -> Result<()> {
    ensure!(
        x.device() == grid.device(),
        "grid_sampler(): expected input and grid to be on same device, but input is on {} and grid is on {}",
        x.device(),
        grid.device()
    );
    let both = || format!("input with sizes {:?} and grid with sizes {:?}", x.sizes(), grid.sizes());
    ensure!(
        x.dim() == n + 2 && grid.dim() == x.dim(),
        "grid_sampler(): expected {}D input and grid with same number of dimensions, but got {}",
        n + 2,
        both()
    );
    ensure!(x.sizes()[0] == grid.sizes()[0], "grid_sampler(): expected grid and input to have same batch size, but got {}", both());
    ensure!(
        grid.sizes()[n + 1] == n as i64,
        "grid_sampler(): expected grid to have size {n} in last dimension, but got grid with sizes {:?}",
        grid.sizes()
    );
    if let Some(d) = (2..x.dim()).find(|d| x.sizes()[*d] == 0) {
        return Err(Error::runtime(format!(
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {:?} with dimension {d} \
             being empty",
            x.sizes()
        )));
    }
    if !x.dtype().is_floating_point() {
        let name = x.dtype().scalar_type_name();
        return Err(Error::not_implemented(format!("\"grid_sampler_{n}d_cpu\" not implemented for '{name}'")));
    }
    ensure!(
        x.dtype() == grid.dtype(),
        "expected scalar type {} but found {}",
        x.dtype().scalar_type_name(),
        grid.dtype().scalar_type_name()
    );
    Ok(())
}

impl Sampler {
    fn kernel(&self) -> kernels::Sampler {
        let Sampler { padding, interpolation, align_corners } = *self;
        kernels::Sampler { padding, interpolation, align_corners }
    }
}

fn sample_plan<const N: usize>(x: &Tensor, grid: &Tensor, interpolation: i64, padding: i64, align_corners: bool) -> Result<TensorSpec> {
    check(x, grid, N)?;
    ensure!(N == 2 || interpolation != 2, "grid_sampler(): bicubic interpolation only supports 4D input");
    Sampler::of(interpolation, padding, align_corners)?;
    let plane: i64 = x.sizes()[2..].iter().product();
    ensure!(plane <= i64::from(i32::MAX), "grid_sampler(): images of {plane} elements per channel are too large");
    let mut sizes = Dims::from_slice(&x.sizes()[..2]);
    sizes.extend_from_slice(&grid.sizes()[1..=N]);
    Ok(TensorSpec::like(sizes, x))
}

/// Calls `f` with the images of `inputs` (images, places and what else is read) and all of these, wide and contiguous;
/// `f` may also write to `out`.
fn with_images<T: Sampled>(
    inputs: &[&Tensor], out: Option<&Tensor>, f: impl FnOnce(&Images<'_, T::Wide>, &[Tensor]) -> Result<()>,
) -> Result<()> {
    let wide = |t: &&Tensor| t.detach_all()?.to_dtype(T::DTYPE.compute())?.contiguous();
    let inputs = inputs.iter().map(wide).collect::<Result<Vec<_>>>()?;
    let (x, grid) = (&inputs[0], &inputs[1]);
    let plane: Vec<usize> = x.sizes()[2..].iter().map(|&s| s as usize).collect();
    let read = inputs.iter().map(|t| (t.storage(), false));
    let _locks = LockSet::new(read.chain(out.map(|t| (t.storage(), true))))?;
    // SAFETY: both are locked, contiguous and of this type.
    let (pixels, places) = unsafe { (elements(x), elements(grid)) };
    let images = Images {
        batch: x.sizes()[0] as usize,
        channels: x.sizes()[1] as usize,
        plane: &plane,
        places: grid.sizes()[1..grid.dim() - 1].iter().product::<i64>() as usize,
        x: pixels,
        grid: places,
    };
    f(&images, &inputs)
}

/// A fresh tensor of `sizes` in the dtype that `dtype` is computed in, written by `f`.
fn computed<W: Element>(sizes: &[i64], dtype: DType, zero: bool, f: impl FnOnce(&mut [W])) -> Result<Tensor> {
    let options = (dtype.compute(), crate::Device::CPU);
    let out = if zero { Tensor::zeros(sizes, options)? } else { Tensor::empty(sizes, options)? };
    {
        let _lock = LockSet::new([(out.storage(), true)])?;
        // SAFETY: it is fresh, locked and of this type.
        f(unsafe { elements_mut(&out) });
    }
    out.to_dtype(dtype)
}

fn sample_run(x: &Tensor, grid: &Tensor, interpolation: i64, padding: i64, align_corners: bool, outs: &[Tensor]) -> Result<()> {
    let s = Sampler::of(interpolation, padding, align_corners)?.kernel();
    if outs[0].numel() == 0 {
        return Ok(());
    }
    let out = &outs[0];
    let apart = !out.shares_storage_with(x) && !out.shares_storage_with(grid);
    let direct = apart && out.is_contiguous() && out.dtype() == x.dtype().compute();
    crate::dispatch_dtype!(x.dtype(), T in [floats] => match direct {
        true => with_images::<T>(&[x, grid], Some(out), |images, _| {
            // SAFETY: it is locked, contiguous, of this type, and none of what is read.
            T::sample(s, images, unsafe { elements_mut(out) });
            Ok(())
        }),
        false => with_images::<T>(&[x, grid], None, |images, _| {
            let samples = computed(out.sizes(), T::DTYPE, false, |samples| T::sample(s, images, samples))?;
            out.copy_(&samples).map(drop)
        }),
    }; else unreachable!("the plan takes floats only"))
}

fn gradients_cpu(
    g: &Tensor, x: &Tensor, grid: &Tensor, interpolation: i64, padding: i64, align_corners: bool, mask: [bool; 2],
) -> Result<[Option<Tensor>; 2]> {
    check(x, grid, x.dim().saturating_sub(2))?;
    ensure!(
        g.dim() == x.dim() && g.sizes()[..2] == x.sizes()[..2] && g.sizes()[2..] == grid.sizes()[1..grid.dim() - 1] && g.dtype() == x.dtype(),
        "grid_sampler_backward: the gradient {:?} does not fit input {:?} and grid {:?}",
        g.sizes(), x.sizes(), grid.sizes()
    );
    let s = Sampler::of(interpolation, padding, align_corners)?.kernel();
    let mut found = [None, None];
    crate::dispatch_dtype!(x.dtype(), T in [floats] => with_images::<T>(&[x, grid, g], None, |images, inputs| {
        // SAFETY: locked, contiguous and of this type.
        let g = unsafe { elements(&inputs[2]) };
        if mask[0] {
            found[0] = Some(computed(x.sizes(), T::DTYPE, true, |out| T::image_gradient(s, images, g, out))?);
        }
        if mask[1] {
            // Of the nearest element there is no gradient in the place.
            let none = s.interpolation == Interpolation::Nearest;
            let fill = |out: &mut [_]| if !none { T::grid_gradient(s, images, g, out) };
            found[1] = Some(computed(grid.sizes(), T::DTYPE, none, fill)?);
        }
        Ok(())
    }); else unreachable!("checked to be floats"))?;
    Ok(found)
}

fn gradients_meta(
    _g: &Tensor, x: &Tensor, grid: &Tensor, _interpolation: i64, _padding: i64, _align_corners: bool, mask: [bool; 2],
) -> Result<[Option<Tensor>; 2]> {
    let like = |t: &Tensor, wanted: bool| wanted.then(|| Tensor::empty(t.sizes(), (t.dtype(), crate::Device::META))).transpose();
    Ok([like(x, mask[0])?, like(grid, mask[1])?])
}

macro_rules! samplers {
    ($($n:literal $name:ident $schema:literal $out:literal $backward:ident $backward_schema:literal;)*) => { $(
        op! {
            /// The elements of images (N, C, ...) at places in [-1, 1], the width first: (N, ..., dims). Linear (0), nearest (1)
            /// or cubic (2) interpolation; zeros (0), the border (1) or a reflection (2) outside.
            $name: $schema, Out OUT: $out;
            Body::Structured {
                plan: plan!(sample_plan::<$n>; x, grid, interpolation, padding, align_corners),
                run: run!(sample_run; x, grid, interpolation, padding, align_corners),
            };
            derivative: backward! {
                (input, grid)([c], input: Tensor, grid: Tensor, interpolation_mode: i64, padding_mode: i64, align_corners: bool) => {
                    let mask = [c.needs("input"), c.needs("grid")];
                    let grads = $backward::OP.call(&[
                        (&c.gradient()?).into(), (&input).into(), (&grid).into(), interpolation_mode.into(), padding_mode.into(),
                        align_corners.into(), (&mask[..]).into(),
                    ])?;
                    match grads {
                        Outputs::Many(grads) => grads,
                        _ => vec![None, None],
                    }
                }
            };
            samples: |m| match m.dtype.is_floating_point() {
                true => (0..6).map(|k: i64| sample![m.any(&[[2, 2].as_slice(), &[4; $n]].concat()), m.uniform(&[[2].as_slice(), &[3; $n], &[$n]].concat(), -1.2, 1.2), k % (5 - $n), k / 2, k % 2 == 0]).collect(),
                false => vec![],
            };
            ulp: 1024.0;
            fn $name(&self, grid: &Tensor, interpolation_mode: i64, padding_mode: i64, align_corners: bool) -> Tensor
                [self, grid, interpolation_mode, padding_mode, align_corners];
        }
        op! {
            /// The gradients of samples with respect to the images and to the places, as far as `output_mask` asks.
            $backward: $backward_schema;
            Body::Kernels {
                cpu: kernel!(gradients_cpu; g, x, grid, interpolation, padding, align_corners, mask),
                meta: kernel!(gradients_meta; g, x, grid, interpolation, padding, align_corners, mask),
            };
            derivative: backward! {
                (grad_output, input, grid)([c], grad_output: Tensor, input: Tensor, grid: Tensor, interpolation_mode: i64, padding_mode: i64, align_corners: bool) => {
                    let sampler = Sampler::of(interpolation_mode, padding_mode, align_corners)?;
                    // The samples written out, and differentiated twice.
                    c.differentiate(&[Some(&grad_output), Some(&input), Some(&grid)], |leaves| {
                        let [Some(g), Some(x), Some(grid)] = leaves else { return Ok(vec![]) };
                        let y = sampler.written_out(x, grid)?;
                        let inputs = [x.clone(), grid.clone()];
                        let first = crate::autograd::grad(&[y], &inputs, &[Some(g.clone())], true, true, true)?;
                        // Of the nearest element there is no gradient in the place: a zero that has one itself.
                        let zeros = |like: &Tensor| like.masked_fill(&Tensor::ones(&[], (DType::Bool, like.device()))?, 0);
                        first.into_iter().zip(&inputs).map(|(d, x)| d.map_or_else(|| zeros(x), Ok)).collect()
                    })?
                }
            };
            samples: |m| match m.dtype.is_floating_point() {
                true => (0..4).map(|k: i64| sample![m.any(&[[2, 2].as_slice(), &[3; $n]].concat()), m.any(&[[2, 2].as_slice(), &[4; $n]].concat()), m.uniform(&[[2].as_slice(), &[3; $n], &[$n]].concat(), -1.2, 1.2), k % (5 - $n), k % 3, k % 2 == 0, OwnedValue::Bools(vec![true; 2])]).collect(),
                false => vec![],
            };
            ulp: 1024.0;
        }
    )* };
}
samplers! {
    2 grid_sampler_2d
        "grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor"
        "grid_sampler_2d.out(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, *, Tensor(a!) out) -> Tensor(a!)"
        grid_sampler_2d_backward
        "grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)";
    3 grid_sampler_3d
        "grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor"
        "grid_sampler_3d.out(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, *, Tensor(a!) out) -> Tensor(a!)"
        grid_sampler_3d_backward
        "grid_sampler_3d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)";
}

fn grid_sampler_any(x: &Tensor, grid: &Tensor, interpolation: i64, padding: i64, align_corners: bool) -> Result<Tensor> {
    match x.dim() {
        5 => x.grid_sampler_3d(grid, interpolation, padding, align_corners),
        4 => x.grid_sampler_2d(grid, interpolation, padding, align_corners),
        _ => Err(Error::runtime(format!(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes {:?} and \
             grid with sizes {:?}",
            x.sizes(),
            grid.sizes()
        ))),
    }
}

op! {
    /// [`Tensor::grid_sampler_2d`] or [`Tensor::grid_sampler_3d`], as the input has dims.
    grid_sampler: "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor";
    Body::Composite(kernel!(grid_sampler_any; x, grid, interpolation, padding, align_corners));
    samples: |m| crate::samples::of(&grid_sampler_2d::OP, m);
    ulp: 1024.0;
}

/// The centres of `n` elements that cover [-1, 1], or places from end to end.
fn along(theta: &Tensor, n: i64, align_corners: bool) -> Result<Tensor> {
    let options = TensorOptions { dtype: Some(theta.dtype()), device: Some(theta.device()) };
    if n <= 1 {
        return Tensor::zeros(&[n.max(0)], options);
    }
    let places = Tensor::linspace(-1, 1, n, options)?;
    if align_corners { Ok(places) } else { places.mul(n - 1)?.div(n) }
}

fn affine_grid_any(theta: &Tensor, size: &[i64], align_corners: bool) -> Result<Tensor> {
    ensure!(
        size.len() == 4 || size.len() == 5,
        "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs."
    );
    let (batch, spatial) = (size[0], &size[2..]);
    let n = spatial.len();
    ensure!(
        theta.dim() == 3 && theta.sizes() == [batch, n as i64, n as i64 + 1],
        "Expected a batch of {n}D affine matrices of shape Nx{n}x{} for size {size:?}. Got {:?}.",
        n + 1,
        theta.sizes()
    );
    crate::dims::checked_numel(size)?;
    let mut coordinates = Vec::with_capacity(n + 1);
    for a in (0..n).rev() {
        let mut shape = vec![1; n];
        shape[a] = spatial[a];
        coordinates.push(along(theta, spatial[a], align_corners)?.view(&shape)?.expand(spatial)?);
    }
    coordinates.push(Tensor::ones(&[], (theta.dtype(), theta.device()))?.expand(spatial)?);
    let base = Tensor::stack(&coordinates, -1)?.reshape(&[1, -1, n as i64 + 1])?;
    let places = base.size(1)?;
    let grid = base.expand(&[batch, places, n as i64 + 1])?.bmm(&theta.transpose(1, 2)?)?;
    grid.view(&[&[batch], spatial, &[n as i64]].concat())
}

op! {
    /// The places that an affine map (N, dims, dims + 1) takes the elements of images of `size` to, for
    /// [`Tensor::grid_sampler_2d`].
    affine_grid_generator: "affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
        Out OUT: "affine_grid_generator.out(Tensor theta, SymInt[] size, bool align_corners, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(affine_grid_any; theta, size, align_corners));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.any(&[2, 2, 3]), vec![2i64, 1, 3, 4], false], sample![m.any(&[1, 3, 4]), vec![1i64, 1, 2, 3, 2], true]],
        false => vec![],
    };
    ulp: 64.0;
    fn affine_grid_generator(&self, size: &[i64], align_corners: bool) -> Tensor [self, size, align_corners];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[affine_grid_generator::ALL, grid_sampler::ALL, grid_sampler_2d::ALL, grid_sampler_2d_backward::ALL, grid_sampler_3d::ALL, grid_sampler_3d_backward::ALL];
