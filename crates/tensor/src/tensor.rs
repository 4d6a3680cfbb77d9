//! The tensor: a cheap handle to sizes, strides and an offset over a shared storage.

use crate::autograd::{History, MetaCell};
use crate::dims::{self, Contiguity, Dims};
use crate::keys::{Key, KeySet};
use crate::sparse::Suffix;
use crate::{DType, Device, Error, Layout, MemoryFormat, Result, Storage, ensure};
use flambeau_base::shared::Shared;
use parking_lot::Mutex;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

/// An n-dimensional array of one dtype on one device: sizes, strides and an offset over a shared [`Storage`].
///
/// Cloning copies the handle, not the data. Views alias: what is written through one is seen through all. Every
/// operator is a method (`x.add(&y)`), most also in place (`x.add_(&y)`) and into a given output (`x.add_out(&y, &mut
/// out)`).
#[derive(Clone)]
pub struct Tensor(pub(crate) Shared<TensorImpl>);

/// What a handle points to. Sizes, strides and offset never change after construction.
pub struct TensorImpl {
    /// Backend and functionality keys; only the autograd bits change.
    keys: AtomicU64,
    pub(crate) dtype: DType,
    pub(crate) device: Device,
    contiguity: Contiguity,
    pub(crate) view_kind: ViewKind,
    inference: bool,
    pub(crate) sizes: Dims,
    pub(crate) strides: Dims,
    pub(crate) storage_offset: i64,
    numel: i64,
    /// A view's is its base's, which it keeps alive anyway, and not counted again: see `drop`.
    storage: ManuallyDrop<Storage>,
    /// What this is a differentiable view of; never a view itself.
    base: Option<Tensor>,
    /// The storage's version when `grad_fn` was last known to be right (views only). See `autograd::view`.
    pub(crate) view_version: AtomicU32,
    /// A version counter of its own, for tensors cut off from history that share memory (`.data`).
    own_version: Option<Arc<AtomicU32>>,
    pub(crate) history: Mutex<History>,
    /// Whether `history` was ever set: leaves are recognised without its lock.
    pub(crate) has_history: AtomicBool,
    /// What autograd rarely knows: leaves, hooks, tangents.
    pub(crate) autograd: MetaCell,
    /// See [`Tensor::external`].
    external: AtomicPtr<()>,
    /// What only some layouts have; see [`crate::sparse`].
    pub(crate) suffix: Option<Arc<Suffix>>,
}

/// How a view came to be; decides what an in-place write to it means for autograd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ViewKind {
    /// Not a view, or one that autograd can follow.
    Ordinary,
    /// Made while `no_grad` was on.
    NoGrad,
    /// Made in inference mode of a tensor that is not an inference tensor.
    Inference,
    /// One of several views that one operator returned.
    MultiOutput,
    /// Made inside a custom function.
    CustomFunction,
}

impl TensorImpl {
    /// The key of its layout, or of its device's backend.
    #[inline(always)]
    fn own_keys(&self) -> u64 {
        match &self.suffix {
            None => 1 << self.device.kind.number(),
            Some(suffix) => KeySet::of(suffix.key()).0,
        }
    }

    /// Sets a functionality key of a tensor that nobody else has seen.
    #[inline(always)]
    pub(crate) fn add_key(&mut self, key: Key) {
        *self.keys.get_mut() |= KeySet::of(key).0;
    }
}

impl Drop for TensorImpl {
    #[inline]
    fn drop(&mut self) {
        if self.base.is_none() {
            // SAFETY: not used after this. (A view's is a copy of its base's handle, made in `make_view_as`.)
            unsafe { ManuallyDrop::drop(&mut self.storage) };
        }
    }
}

impl Tensor {
    /// A tensor over `storage` with checked geometry.
    ///
    /// # Errors
    /// When a size or the offset is negative, a stride is negative, or the geometry reaches past the storage.
    pub fn from_storage(
        storage: Storage,
        dtype: DType,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: i64,
    ) -> Result<Tensor> {
        check_geometry(&storage, dtype, sizes, strides, storage_offset)?;
        Ok(Self::from_parts(storage, dtype, Dims::from_slice(sizes), Dims::from_slice(strides), storage_offset))
    }

    /// The same elements as no view of anything, with a version and a history of its own.
    pub(crate) fn on_the_same_storage(&self) -> Tensor {
        let (sizes, strides) = (dims::copy(&self.0.sizes), dims::copy(&self.0.strides));
        Self::from_parts(self.storage().clone(), self.dtype(), sizes, strides, self.storage_offset())
    }

    /// A tensor from parts already known to fit.
    #[inline]
    pub(crate) fn from_parts(
        storage: Storage,
        dtype: DType,
        sizes: Dims,
        strides: Dims,
        storage_offset: i64,
    ) -> Tensor {
        let contiguity = Contiguity::of(&sizes, &strides);
        Self::with_contiguity(storage, dtype, sizes, strides, storage_offset, contiguity)
    }

    #[inline(always)]
    fn with_contiguity(
        storage: Storage,
        dtype: DType,
        sizes: Dims,
        strides: Dims,
        storage_offset: i64,
        contiguity: Contiguity,
    ) -> Tensor {
        let numel = dims::numel(&sizes);
        let (sizes, strides) = (ManuallyDrop::new(sizes), ManuallyDrop::new(strides));
        // SAFETY: moved from here, once; the originals are not dropped.
        unsafe { Self::assembled(storage, dtype, &sizes, &strides, storage_offset, contiguity, numel) }
    }

    /// A tensor that is no view. Its sizes and strides are moved once, to where they stay.
    ///
    /// # Safety
    /// Sizes and strides are moved out: the caller neither uses nor drops them, unless nothing of theirs is on the heap.
    #[inline(always)]
    unsafe fn assembled(
        storage: Storage,
        dtype: DType,
        sizes: &Dims,
        strides: &Dims,
        storage_offset: i64,
        contiguity: Contiguity,
        numel: i64,
    ) -> Tensor {
        let device = storage.device();
        let inference = crate::autograd::is_inference_mode_enabled();
        Tensor(Shared::new_with(move || TensorImpl {
            keys: AtomicU64::new(1 << device.kind.number()),
            dtype,
            device,
            contiguity,
            view_kind: ViewKind::Ordinary,
            inference,
            numel,
            // SAFETY: the caller gives them away.
            sizes: unsafe { std::ptr::read(sizes) },
            // SAFETY: as above.
            strides: unsafe { std::ptr::read(strides) },
            storage_offset,
            storage: ManuallyDrop::new(storage),
            base: None,
            view_version: AtomicU32::new(0),
            own_version: None,
            history: const { Mutex::new(History { node: None, output_number: 0 }) },
            has_history: AtomicBool::new(false),
            autograd: MetaCell::default(),
            external: AtomicPtr::default(),
            suffix: None,
        }))
    }

    /// A fresh row-major tensor, uninitialised. `sizes` must be checked.
    #[inline]
    pub(crate) fn fresh(device: Device, dtype: DType, sizes: Dims) -> Result<Tensor> {
        let strides = dims::contiguous_strides(&sizes);
        let storage = Storage::new(device, nbytes(&sizes, dtype)?)?;
        if sizes.len() < 4 {
            return Ok(Self::with_contiguity(storage, dtype, sizes, strides, 0, Contiguity::FRESH));
        }
        Ok(Self::from_parts(storage, dtype, sizes, strides, 0))
    }

    /// A fresh row-major tensor of the sizes of `like`, which is contiguous, uninitialised. What is known of that is not
    /// worked out again.
    #[inline]
    pub(crate) fn fresh_like(like: &Tensor, device: Device, dtype: DType) -> Result<Tensor> {
        let TensorImpl { sizes, strides, numel, .. } = &*like.0;
        if sizes.len() >= 4 || sizes.spilled() || strides.spilled() || dtype.size() > like.dtype().size() {
            return Self::fresh(device, dtype, dims::copy(sizes));
        }
        let storage = Storage::new(device, *numel as usize * dtype.size())?;
        // SAFETY: both are numbers beside their count.
        let mut t = unsafe { Self::assembled(storage, dtype, sizes, strides, 0, Contiguity::FRESH, *numel) };
        // (Where a dimension has one element, or there are none at all, its stride may be any number.)
        if let Some(t) = t.0.get_mut() {
            let mut step = 1i64;
            for (stride, size) in t.strides.iter_mut().zip(&t.sizes).rev() {
                *stride = step;
                step = step.saturating_mul((*size).max(1));
            }
        }
        Ok(t)
    }

    /// A tensor of another layout than strided. To whatever looks at memory it is one zero, expanded: nothing can be read
    /// or written out of bounds.
    pub(crate) fn with_suffix(device: Device, dtype: DType, sizes: Dims, suffix: Suffix) -> Result<Tensor> {
        dims::check_countable(&sizes)?;
        let storage = Storage::new(device, dtype.size())?;
        if device.is_cpu() {
            // SAFETY: as many bytes, which nobody else has seen.
            unsafe { std::ptr::write_bytes(storage.data_ptr(), 0, dtype.size()) };
        }
        let strides = Dims::from_elem(0, sizes.len());
        let key = suffix.key();
        let mut t = Self::from_parts(storage, dtype, sizes, strides, 0);
        if let Some(t) = t.0.get_mut() {
            *t.keys.get_mut() = KeySet::of(key).0;
            t.suffix = Some(Arc::new(suffix));
        }
        Ok(t)
    }

    /// A fresh tensor with the given strides, uninitialised.
    pub(crate) fn fresh_strided(device: Device, dtype: DType, sizes: Dims, strides: Dims) -> Result<Tensor> {
        dims::check_countable(&sizes)?;
        let extent = dims::storage_extent(&sizes, &strides)?;
        let storage = Storage::new(device, nbytes(&[extent], dtype)?)?;
        Ok(Self::from_parts(storage, dtype, sizes, strides, 0))
    }

    /// A differentiable view of this tensor with another geometry, already known to fit the storage.
    #[inline]
    pub(crate) fn make_view(&self, sizes: Dims, strides: Dims, storage_offset: i64) -> Tensor {
        self.make_view_as(self.dtype(), sizes, strides, storage_offset)
    }

    /// Like [`Tensor::make_view`], reading the memory as `dtype`.
    #[inline]
    pub(crate) fn make_view_as(&self, dtype: DType, sizes: Dims, strides: Dims, storage_offset: i64) -> Tensor {
        let (sizes, strides) = (ManuallyDrop::new(sizes), ManuallyDrop::new(strides));
        // SAFETY: read there once, and not dropped here.
        unsafe { self.view_of(dtype, &sizes, &strides, storage_offset) }
    }

    /// A differentiable view whose sizes and strides are this tensor's but for what `edit` does to them, which must fit the
    /// storage. They are changed where they are read from next: a move right after the write of one element waits for it.
    #[inline(always)]
    pub(crate) fn edited_view(&self, storage_offset: i64, edit: impl FnOnce(&mut Dims, &mut Dims)) -> Tensor {
        let mut sizes = ManuallyDrop::new(dims::copy(&self.0.sizes));
        let mut strides = ManuallyDrop::new(dims::copy(&self.0.strides));
        edit(&mut sizes, &mut strides);
        // SAFETY: read there once, and not dropped here.
        unsafe { self.view_of(self.dtype(), &sizes, &strides, storage_offset) }
    }

    /// [`Tensor::make_view_as`] by reference: sizes and strides, often just written, are moved only once. Whatever can be
    /// found out before is, so that the fields go straight to where they stay.
    ///
    /// # Safety
    /// Sizes and strides are moved out: the caller neither uses nor drops them.
    unsafe fn view_of(&self, dtype: DType, sizes: &Dims, strides: &Dims, storage_offset: i64) -> Tensor {
        let (contiguity, numel) = (Contiguity::of(sizes, strides), dims::numel(sizes));
        let base = self.0.base.as_ref().unwrap_or(self).clone();
        let view_kind = match self.0.view_kind {
            ViewKind::Ordinary if crate::autograd::is_grad_enabled() => ViewKind::Ordinary,
            ViewKind::Ordinary if crate::autograd::is_inference_mode_enabled() && !self.0.inference => {
                ViewKind::Inference
            }
            ViewKind::Ordinary if self.requires_grad() => ViewKind::NoGrad,
            kind => kind,
        };
        let (keys, version) = (self.0.own_keys(), self.version());
        let (own_version, suffix) = (self.0.own_version.clone(), self.0.suffix.clone());
        // SAFETY: the copy is never dropped (see `TensorImpl::drop`), and the original, the base's own handle, lives as long
        // as the base, which the view holds on to.
        let storage = unsafe { std::ptr::read(&base.0.storage) };
        Tensor(Shared::new_with(move || TensorImpl {
            keys: AtomicU64::new(keys),
            dtype,
            device: self.0.device,
            contiguity,
            view_kind,
            inference: self.0.inference,
            numel,
            // SAFETY: the caller gives them away.
            sizes: unsafe { std::ptr::read(sizes) },
            // SAFETY: as above.
            strides: unsafe { std::ptr::read(strides) },
            storage_offset,
            storage,
            base: Some(base),
            view_version: AtomicU32::new(version),
            own_version,
            history: const { Mutex::new(History { node: None, output_number: 0 }) },
            has_history: AtomicBool::new(false),
            autograd: MetaCell::default(),
            external: AtomicPtr::default(),
            suffix,
        }))
    }

    /// The same data cut off from history and from view tracking; with `share_version`, writes still count for both.
    pub(crate) fn shallow_detached(&self, share_version: bool) -> Tensor {
        let t = &*self.0;
        let own_version = match share_version {
            true => t.own_version.clone(),
            false => Some(Arc::new(AtomicU32::new(0))),
        };
        Tensor(Shared::new_with(|| TensorImpl {
            keys: AtomicU64::new(t.own_keys()),
            dtype: t.dtype,
            device: t.device,
            contiguity: t.contiguity,
            view_kind: ViewKind::Ordinary,
            inference: t.inference,
            numel: t.numel,
            sizes: dims::copy(&t.sizes),
            strides: dims::copy(&t.strides),
            storage_offset: t.storage_offset,
            storage: ManuallyDrop::new(Storage::clone(&t.storage)),
            base: None,
            view_version: AtomicU32::new(0),
            own_version,
            history: const { Mutex::new(History { node: None, output_number: 0 }) },
            has_history: AtomicBool::new(false),
            autograd: MetaCell::default(),
            external: AtomicPtr::default(),
            suffix: t.suffix.clone(),
        }))
    }

    /// A tensor over the memory of `data` that takes this one's place for autograd: the same gradient, hooks and history.
    ///
    /// # Errors
    /// When `data` is on another kind of device, or its dtype cannot have gradients and this tensor asks for one.
    pub fn with_data(&self, data: &Tensor) -> Result<Tensor> {
        ensure!(
            self.device().kind == data.device().kind,
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type."
        );
        ensure!(
            !self.requires_grad() || data.dtype().is_differentiable(),
            "data set to a tensor that requires gradients must be floating point or complex dtype"
        );
        let mut new = data.shallow_detached(false);
        if let Some(t) = new.0.get_mut() {
            let autograd = KeySet::of(Key::AUTOGRAD).0 & self.0.keys.load(Relaxed);
            *t.keys.get_mut() |= autograd;
            t.autograd = self.0.autograd.share();
            let history = self.0.history.lock();
            *t.has_history.get_mut() = history.node.is_some();
            *t.history.get_mut() = History { node: history.node.clone(), output_number: history.output_number };
        }
        Ok(new)
    }

    /// What a front end has attached to this tensor: a pointer whose meaning is its own, null at first. Nothing here
    /// follows or frees it; it does not pass to views or copies.
    #[inline(always)]
    pub fn external(&self) -> *mut () {
        self.0.external.load(Relaxed)
    }

    /// Attaches a front end's pointer; see [`Tensor::external`].
    #[inline(always)]
    pub fn set_external(&self, pointer: *mut ()) {
        self.0.external.store(pointer, Relaxed);
    }

    /// Marks a view just made; the handle must be the only one.
    pub(crate) fn with_view_kind(mut self, kind: ViewKind) -> Tensor {
        if let Some(t) = self.0.get_mut() {
            t.view_kind = kind;
        }
        self
    }

    /// The dtype of the elements.
    #[inline(always)]
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Where the data lives.
    #[inline(always)]
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// How the elements are stored.
    #[inline(always)]
    pub fn layout(&self) -> Layout {
        match &self.0.suffix {
            None => Layout::Strided,
            Some(suffix) => suffix.layout(),
        }
    }

    /// Whether its elements lie in one storage, by strides.
    #[inline(always)]
    pub fn is_strided(&self) -> bool {
        self.0.suffix.is_none()
    }

    /// The sizes, one per dimension.
    #[inline(always)]
    pub fn sizes(&self) -> &[i64] {
        &self.0.sizes
    }

    /// The strides, in elements, one per dimension.
    #[inline(always)]
    pub fn strides(&self) -> &[i64] {
        &self.0.strides
    }

    /// How many dimensions.
    #[inline(always)]
    pub fn dim(&self) -> usize {
        self.0.sizes.len()
    }

    /// The size of dimension `dim`, counted from the end when negative.
    ///
    /// # Errors
    /// When there is no such dimension.
    #[inline]
    pub fn size(&self, dim: i64) -> Result<i64> {
        let d = dims::wrap_dim(dim, self.dim())?;
        self.0
            .sizes
            .get(d)
            .copied()
            .ok_or_else(|| Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")))
    }

    /// How many elements.
    #[inline(always)]
    pub fn numel(&self) -> i64 {
        self.0.numel
    }

    /// Bytes per element.
    #[inline(always)]
    pub fn element_size(&self) -> usize {
        self.0.dtype.size()
    }

    /// The first element's place in the storage, in elements.
    #[inline(always)]
    pub fn storage_offset(&self) -> i64 {
        self.0.storage_offset
    }

    /// The storage this tensor is a view of.
    #[inline(always)]
    pub fn storage(&self) -> &Storage {
        &self.0.storage
    }

    /// The address of the first element. The memory may be read or written only under the storage's lock; see
    /// [`Tensor::accessor`] and [`Tensor::to_vec`] for safe ways.
    #[inline(always)]
    pub fn data_ptr(&self) -> *mut u8 {
        self.0
            .storage
            .data_ptr()
            .wrapping_offset((self.0.storage_offset as isize).wrapping_mul(self.element_size() as isize))
    }

    /// Whether both tensors are over the same storage.
    pub fn shares_storage_with(&self, other: &Tensor) -> bool {
        self.0.storage.same(&other.0.storage)
    }

    /// Whether both are the same elements: same storage, offset, sizes, strides and dtype.
    pub fn is_set_to(&self, other: &Tensor) -> bool {
        self.shares_storage_with(other)
            && self.storage_offset() == other.storage_offset()
            && self.sizes() == other.sizes()
            && self.strides() == other.strides()
            && self.dtype() == other.dtype()
    }

    /// Whether both are handles to the very same tensor.
    #[inline(always)]
    pub fn is_same(&self, other: &Tensor) -> bool {
        self.0.same(&other.0)
    }

    /// A number that is the same for handles of one tensor and different for tensors alive at once.
    pub fn id(&self) -> usize {
        self.0.address()
    }

    /// Whether it is row-major.
    #[inline(always)]
    pub fn is_contiguous(&self) -> bool {
        self.0.contiguity.has(Contiguity::CONTIGUOUS)
    }

    /// Whether it is dense in the order of `format` (`Preserve` counts as row-major).
    pub fn is_contiguous_in(&self, format: MemoryFormat) -> bool {
        self.0.contiguity.has(match format {
            MemoryFormat::Contiguous | MemoryFormat::Preserve => Contiguity::CONTIGUOUS,
            MemoryFormat::ChannelsLast => Contiguity::CHANNELS_LAST,
            MemoryFormat::ChannelsLast3d => Contiguity::CHANNELS_LAST_3D,
        })
    }

    /// Whether the elements fill a block without gaps or overlaps, in any order of dims.
    #[inline(always)]
    pub fn is_non_overlapping_and_dense(&self) -> bool {
        self.0.contiguity.has(Contiguity::DENSE)
    }

    /// The memory format results should take from this input: channels-last if its strides fall in that order, also with
    /// gaps between them.
    pub fn suggested_memory_format(&self) -> MemoryFormat {
        match self.dim() {
            4 if dims::is_like_channels_last(self.sizes(), self.strides()) => MemoryFormat::ChannelsLast,
            5 if dims::is_like_channels_last(self.sizes(), self.strides()) => MemoryFormat::ChannelsLast3d,
            _ => MemoryFormat::Contiguous,
        }
    }

    /// Whether it is a differentiable view of another tensor.
    pub fn is_view(&self) -> bool {
        self.0.base.is_some()
    }

    /// Whether it was made in [inference mode](crate::autograd::inference_mode), or is a view of such a tensor.
    #[inline(always)]
    pub fn is_inference(&self) -> bool {
        self.0.inference
    }

    /// The tensor this is a view of, if autograd tracks one.
    pub fn base(&self) -> Option<&Tensor> {
        self.0.base.as_ref()
    }

    /// How many writes the memory has seen; saved tensors compare it.
    #[inline(always)]
    pub fn version(&self) -> u32 {
        match &self.0.own_version {
            None => self.0.storage.version(),
            Some(v) => v.load(Relaxed),
        }
    }

    /// The same as newly made: who fills what it has just allocated has written to nothing that anybody saw.
    pub(crate) fn unwritten(self) -> Tensor {
        match &self.0.own_version {
            None => self.0.storage.reset_version(),
            Some(v) => v.store(0, Relaxed),
        }
        self
    }

    /// Counts a write. Operators do; only who writes to the memory by other means has to.
    #[inline(always)]
    pub fn bump_version(&self) {
        match &self.0.own_version {
            None => self.0.storage.bump_version(),
            Some(v) => {
                v.fetch_add(1, Relaxed);
            }
        }
    }

    /// The dispatch keys this tensor brings to a call.
    #[inline(always)]
    pub fn key_set(&self) -> KeySet {
        let keys = KeySet(self.0.keys.load(Relaxed));
        if self.0.base.is_none() { keys } else { keys.with(self.stale_view_keys()) }
    }

    /// The autograd key of a view whose base gained history after the view was made. See `autograd::view`.
    #[inline]
    fn stale_view_keys(&self) -> KeySet {
        match &self.0.base {
            Some(base)
                if self.0.view_kind == ViewKind::Ordinary
                    && self.0.view_version.load(Relaxed) != self.version()
                    && KeySet(base.0.keys.load(Relaxed)).has(Key::AUTOGRAD)
                    && self.dtype().is_differentiable() =>
            {
                KeySet::of(Key::AUTOGRAD)
            }
            _ => KeySet::EMPTY,
        }
    }

    /// Sets or clears a functionality key.
    pub(crate) fn set_key(&self, key: Key, on: bool) {
        match on {
            true => self.0.keys.fetch_or(KeySet::of(key).0, Relaxed),
            false => self.0.keys.fetch_and(!KeySet::of(key).0, Relaxed),
        };
    }
}

/// Bytes of a dense tensor.
///
/// # Errors
/// When they do not fit `isize`.
#[inline]
pub(crate) fn nbytes(sizes: &[i64], dtype: DType) -> Result<usize> {
    let n = dims::checked_numel(sizes)?;
    match n.checked_mul(dtype.size() as i64) {
        Some(bytes) if bytes < isize::MAX as i64 - 4096 => Ok(bytes as usize),
        _ => Err(Error::runtime(format!(
            "Storage size calculation overflowed with sizes={sizes:?}: {n} elements of {} bytes",
            dtype.size()
        ))),
    }
}

/// Whether the geometry is valid over `storage`.
///
/// # Errors
/// Says what is wrong with it.
pub(crate) fn check_geometry(
    storage: &Storage,
    dtype: DType,
    sizes: &[i64],
    strides: &[i64],
    storage_offset: i64,
) -> Result<()> {
    ensure!(sizes.len() == strides.len(), "mismatch in length of strides and shape");
    dims::checked_numel(sizes)?;
    ensure!(
        strides.iter().all(|&s| s >= 0),
        "as_strided: Negative strides are not supported at the moment, got strides: {strides:?}"
    );
    ensure!(storage_offset >= 0, "Tensor: invalid storage offset {storage_offset}");
    let extent = dims::storage_extent(sizes, strides)?;
    let end = match extent {
        0 => 0,
        n => n.checked_add(storage_offset).unwrap_or(i64::MAX),
    };
    let bytes = end.saturating_mul(dtype.size() as i64);
    ensure!(
        bytes as u64 <= storage.nbytes() as u64,
        "setStorage: sizes {sizes:?}, strides {strides:?}, storage offset {storage_offset}, and itemsize {} requiring a \
         storage size of {bytes} are out of bounds for storage of size {}",
        dtype.size(),
        storage.nbytes()
    );
    Ok(())
}
