//! The small immutable types: `dtype`, `device`, `layout`, `memory_format`, `Size`, and `Generator`.

use crate::error::raise;
use flambeau::{DType, Device, DeviceKind, Layout, MemoryFormat};
use pyo3::exceptions::{PyAssertionError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicUsize, Ordering::Relaxed};

/// `flambeau.dtype`: one object per dtype.
#[pyclass(frozen, name = "dtype", module = "flambeau")]
pub struct DTypeObject(Kind);

/// What a dtype object stands for.
#[derive(Clone, Copy)]
enum Kind {
    /// A dtype that tensors can have.
    Known(DType),
    /// One of PyTorch's that programs name in tables, and that no tensor of this library has.
    Named(&'static str),
}

/// The dtypes that exist as names only.
const NAMED: &[&str] = &[
    "bits16",
    "bits1x8",
    "bits2x4",
    "bits4x2",
    "bits8",
    "complex32",
    "float4_e2m1fn_x2",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "int1",
    "int2",
    "int3",
    "int4",
    "int5",
    "int6",
    "int7",
    "qint32",
    "qint8",
    "quint2x4",
    "quint4x2",
    "quint8",
    "uint1",
    "uint2",
    "uint3",
    "uint4",
    "uint5",
    "uint6",
    "uint7",
];

impl DTypeObject {
    /// The dtype.
    ///
    /// # Errors
    /// When it exists as a name only.
    pub fn known(&self) -> PyResult<DType> {
        match self.0 {
            Kind::Known(d) => Ok(d),
            Kind::Named(name) => Err(pyo3::exceptions::PyNotImplementedError::new_err(format!(
                "Flambeau has no tensors of dtype torch.{name} yet"
            ))),
        }
    }
    fn name(&self) -> &'static str {
        match self.0 {
            Kind::Known(d) => d.name(),
            Kind::Named(name) => name,
        }
    }
}

#[pymethods]
impl DTypeObject {
    fn __repr__(&self) -> String {
        format!("torch.{}", self.name())
    }
    fn __reduce__(&self) -> &'static str {
        self.name()
    }
    #[getter]
    fn is_floating_point(&self) -> bool {
        match self.0 {
            Kind::Known(d) => d.is_floating_point(),
            Kind::Named(name) => name.starts_with("float"),
        }
    }
    #[getter]
    fn is_complex(&self) -> bool {
        match self.0 {
            Kind::Known(d) => d.is_complex(),
            Kind::Named(name) => name == "complex32",
        }
    }
    #[getter]
    fn is_signed(&self) -> bool {
        match self.0 {
            Kind::Known(d) => d.is_signed(),
            Kind::Named("float8_e8m0fnu") => false,
            Kind::Named(name) => ["float", "complex", "int", "qint"].iter().any(|p| name.starts_with(p)),
        }
    }
    #[getter]
    fn itemsize(&self) -> usize {
        match self.0 {
            Kind::Known(d) => d.size(),
            Kind::Named("complex32" | "qint32") => 4,
            Kind::Named("bits16") => 2,
            Kind::Named(_) => 1,
        }
    }
    fn to_real(&self, py: Python<'_>) -> PyResult<Py<DTypeObject>> {
        match self.0 {
            Kind::Named("complex32") => Ok(dtype(py, DType::F16)),
            _ => Ok(dtype(py, self.known()?.to_real())),
        }
    }
    fn to_complex(&self, py: Python<'_>) -> PyResult<Py<DTypeObject>> {
        Ok(dtype(py, self.known()?.to_complex()))
    }
    /// The name that error messages use (`Float`).
    #[getter]
    fn _scalar_type_name(&self) -> &'static str {
        match self.0 {
            Kind::Known(d) => d.scalar_type_name(),
            Kind::Named(name) => name,
        }
    }
}

static DTYPES: PyOnceLock<Vec<Py<DTypeObject>>> = PyOnceLock::new();

/// The object of a dtype.
pub fn dtype(py: Python<'_>, d: DType) -> Py<DTypeObject> {
    let make = |d: DType| Py::new(py, DTypeObject(Kind::Known(d)));
    let all = DTYPES.get_or_init(py, || DType::ALL.into_iter().filter_map(|d| make(d).ok()).collect());
    let at = DType::ALL.iter().position(|x| *x == d).unwrap_or(0);
    all[at].clone_ref(py)
}

/// `flambeau.layout`: any of PyTorch's layouts can be named; one that no tensor has is an error where it is asked for.
#[pyclass(frozen, eq, hash, name = "layout", module = "flambeau")]
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
pub struct LayoutObject(LayoutKind);

/// What a layout object stands for.
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
enum LayoutKind {
    /// A layout that tensors can have.
    Known(Layout),
    /// A name only.
    Named(&'static str),
}

/// Layouts that no tensor has.
const OTHER_LAYOUTS: &[&str] = &["sparse_csc", "sparse_bsr", "sparse_bsc", "jagged", "_mkldnn"];

impl LayoutObject {
    /// The layout.
    ///
    /// # Errors
    /// When it exists as a name only.
    pub fn known(&self) -> PyResult<Layout> {
        match self.0 {
            LayoutKind::Known(layout) => Ok(layout),
            LayoutKind::Named(name) => Err(pyo3::exceptions::PyNotImplementedError::new_err(format!(
                "Flambeau has no tensors of layout torch.{name} yet"
            ))),
        }
    }

    fn name(&self) -> String {
        match self.0 {
            LayoutKind::Known(layout) => layout.to_string().trim_start_matches("torch.").to_string(),
            LayoutKind::Named(name) => name.to_string(),
        }
    }
}

#[pymethods]
impl LayoutObject {
    fn __repr__(&self) -> String {
        format!("torch.{}", self.name())
    }
    fn __reduce__(&self) -> String {
        self.name()
    }
}

/// `flambeau.memory_format`.
#[pyclass(frozen, eq, hash, name = "memory_format", module = "flambeau")]
#[derive(PartialEq, Clone, Copy)]
pub struct MemoryFormatObject(pub MemoryFormat);

impl Hash for MemoryFormatObject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0 as u8).hash(state);
    }
}

impl MemoryFormatObject {
    fn name(&self) -> &'static str {
        match self.0 {
            MemoryFormat::Contiguous => "contiguous_format",
            MemoryFormat::Preserve => "preserve_format",
            MemoryFormat::ChannelsLast => "channels_last",
            MemoryFormat::ChannelsLast3d => "channels_last_3d",
        }
    }
}

#[pymethods]
impl MemoryFormatObject {
    fn __repr__(&self) -> String {
        format!("torch.{}", self.name())
    }
    fn __reduce__(&self) -> &'static str {
        self.name()
    }
}

/// Objects that exist once each, by what they stand for.
static LAYOUTS: PyOnceLock<Vec<Py<LayoutObject>>> = PyOnceLock::new();
static FORMATS: PyOnceLock<Vec<Py<MemoryFormatObject>>> = PyOnceLock::new();

/// The object of a layout.
pub fn layout(py: Python<'_>, l: Layout) -> Py<LayoutObject> {
    let all = [Layout::Strided, Layout::SparseCoo, Layout::SparseCsr];
    let objects = LAYOUTS.get_or_init(py, || {
        all.into_iter().filter_map(|l| Py::new(py, LayoutObject(LayoutKind::Known(l))).ok()).collect()
    });
    objects[l as usize].clone_ref(py)
}

/// The object of a memory format.
pub fn memory_format(py: Python<'_>, f: MemoryFormat) -> Py<MemoryFormatObject> {
    use MemoryFormat::{ChannelsLast, ChannelsLast3d, Contiguous, Preserve};
    let all = [Contiguous, Preserve, ChannelsLast, ChannelsLast3d];
    let make = || all.into_iter().filter_map(|f| Py::new(py, MemoryFormatObject(f)).ok()).collect();
    FORMATS.get_or_init(py, make)[f as usize].clone_ref(py)
}

/// `flambeau.device`: any of PyTorch's devices can be named; one that is not there is an error where it is used.
#[pyclass(frozen, name = "device", module = "flambeau", weakref)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceObject {
    kind: &'static str,
    index: Option<u8>,
}

/// PyTorch's devices.
const KNOWN_DEVICES: &[&str] = &[
    "cpu",
    "cuda",
    "ipu",
    "xpu",
    "mkldnn",
    "opengl",
    "opencl",
    "ideep",
    "hip",
    "ve",
    "fpga",
    "maia",
    "xla",
    "lazy",
    "vulkan",
    "mps",
    "meta",
    "hpu",
    "mtia",
    "privateuseone",
];

impl DeviceObject {
    /// Reads `cpu`, `cuda:0`, ...
    pub fn parse(text: &str) -> PyResult<DeviceObject> {
        let (name, index) = text.split_once(':').map_or((text, None), |(name, index)| (name, Some(index)));
        let known = KNOWN_DEVICES.iter().copied().find(|k| *k == name);
        let Some(kind) = known.or_else(|| DeviceKind::by_name(name).map(DeviceKind::name)) else {
            if text.is_empty() {
                return Err(PyRuntimeError::new_err("Device string must not be empty"));
            }
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_') {
                return Err(PyRuntimeError::new_err(format!("Invalid device string: '{text}'")));
            }
            return Err(PyRuntimeError::new_err(format!(
                "Expected one of {} device type at start of device string: {name}",
                KNOWN_DEVICES.join(", ")
            )));
        };
        let Some(index) = index else { return Ok(DeviceObject { kind, index: None }) };
        let plain = !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit());
        match index.parse().ok().filter(|_| plain) {
            Some(index) => Ok(DeviceObject { kind, index: Some(index) }),
            None => Err(PyRuntimeError::new_err(format!("Invalid device string: '{text}'"))),
        }
    }

    /// A number is that of an accelerator, and CUDA is what PyTorch calls one that it does not know.
    pub fn numbered(i: i64) -> PyResult<DeviceObject> {
        let index = u8::try_from(i).map_err(|_| PyRuntimeError::new_err("Device index must not be negative"))?;
        Ok(DeviceObject { kind: "cuda", index: Some(index) })
    }

    /// The device that an object names.
    fn new(r#type: &Bound<'_, PyAny>, index: Option<i64>) -> PyResult<DeviceObject> {
        if let Ok(d) = r#type.cast::<DeviceObject>() {
            return Ok(*d.get());
        }
        let of = |i: i64| u8::try_from(i).map_err(|_| PyRuntimeError::new_err("Device index must not be negative"));
        if let Ok(text) = r#type.extract::<String>() {
            let named = DeviceObject::parse(&text)?;
            return match index {
                Some(_) if text.contains(':') => Err(PyRuntimeError::new_err(format!(
                    "type (string) must not include an index because index was passed explicitly: {text}"
                ))),
                Some(i) => Ok(DeviceObject { index: Some(of(i)?), ..named }),
                None => Ok(named),
            };
        }
        if let (Ok(i), None) = (r#type.extract::<i64>(), index) {
            return DeviceObject::numbered(i);
        }
        Err(unlike_a_device(Some(r#type)))
    }

    /// The device, if it is there.
    pub fn device(&self) -> PyResult<Device> {
        match DeviceKind::by_name(self.kind) {
            Some(kind) => Ok(Device { kind, index: self.index }),
            None => Err(match self.kind {
                "cuda" | "xpu" => PyAssertionError::new_err(format!(
                    "Torch not compiled with {} enabled",
                    self.kind.to_ascii_uppercase()
                )),
                kind => PyRuntimeError::new_err(format!("PyTorch is not linked with support for {kind} devices")),
            }),
        }
    }
}

/// PyTorch's words for what cannot be made a device.
#[cold]
fn unlike_a_device(object: Option<&Bound<'_, PyAny>>) -> PyErr {
    let name = object.map_or(String::new(), |o| crate::number::type_name(o.as_ptr()));
    let why = match object {
        Some(_) => format!("      didn't match because some of the arguments have invalid types: (!{name}!)\n"),
        None => String::new(),
    };
    PyTypeError::new_err(format!(
        "device() received an invalid combination of arguments - got ({name}), but expected one of:\n * (torch.device \
         device)\n{why} * (str type, int index = -1)\n"
    ))
}

#[pymethods]
impl DeviceObject {
    #[new]
    #[pyo3(signature = (r#type=None, index=None))]
    fn construct(r#type: Option<&Bound<'_, PyAny>>, index: Option<i64>) -> PyResult<DeviceObject> {
        let Some(named) = r#type else { return Err(unlike_a_device(None)) };
        DeviceObject::new(named, index)
    }
    #[getter]
    fn r#type(&self) -> &'static str {
        self.kind
    }
    #[getter]
    fn index(&self) -> Option<u8> {
        self.index
    }
    fn __repr__(&self) -> String {
        match self.index {
            Some(i) => format!("device(type='{}', index={i})", self.kind),
            None => format!("device(type='{}')", self.kind),
        }
    }
    fn __str__(&self) -> String {
        self.index.map_or_else(|| self.kind.to_string(), |i| format!("{}:{i}", self.kind))
    }
    fn __hash__(&self) -> u64 {
        let mut hasher = std::collections::hash_map::DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: pyo3::basic::CompareOp, py: Python<'_>) -> Py<PyAny> {
        use pyo3::basic::CompareOp::{Eq, Ne};
        match (other.cast::<DeviceObject>(), op) {
            (Ok(o), Eq) => pyo3::types::PyBool::new(py, self == o.get()).to_owned().into_any().unbind(),
            (Ok(o), Ne) => pyo3::types::PyBool::new(py, self != o.get()).to_owned().into_any().unbind(),
            _ => py.NotImplemented(),
        }
    }
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let d = slf.get();
        (slf.get_type(), (d.kind, d.index)).into_pyobject(slf.py())
    }
    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        slf.py().import("flambeau.utils._device")?.call_method1("enter", (&slf,))?;
        Ok(slf)
    }
    #[pyo3(signature = (*_exception))]
    fn __exit__(slf: &Bound<'_, Self>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        slf.py().import("flambeau.utils._device")?.call_method1("exit", (slf,))?;
        Ok(())
    }
    fn __call__<'py>(slf: &Bound<'py, Self>, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("flambeau.utils._device")?.call_method1("decorate", (slf, function))
    }
}

/// The object of the device that most tensors are on.
static CPU: PyOnceLock<Py<DeviceObject>> = PyOnceLock::new();

/// A Python object of a device.
pub fn device(py: Python<'_>, d: Device) -> PyResult<Py<DeviceObject>> {
    let make = || Py::new(py, DeviceObject { kind: d.kind.name(), index: d.index });
    match d == Device::CPU {
        true => CPU.get_or_try_init(py, make).map(|object| object.clone_ref(py)),
        false => make(),
    }
}

/// The class `flambeau.Size`, a subclass of `tuple` written in Python; set when the package is imported.
static SIZE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Tells the module the class to make sizes of.
#[pyfunction]
pub fn _set_size_class(py: Python<'_>, class: Bound<'_, PyType>) {
    let _ = SIZE.set(py, class.unbind());
}

unsafe extern "C" fn size_subscript(object: *mut PyObject, key: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by the interpreter with a live instance of a subclass of `tuple`.
    unsafe {
        let slot = ffi::PyType_GetSlot(&raw mut ffi::PyTuple_Type, ffi::Py_mp_subscript);
        let subscript: ffi::binaryfunc = std::mem::transmute(slot);
        let item = subscript(object, key);
        if item.is_null() || ffi::Py_TYPE(key) != &raw mut ffi::PySlice_Type {
            return item;
        }
        crate::function::guarded(|py| {
            let part = Bound::from_owned_ptr(py, item);
            of_class(py, ffi::Py_TYPE(object), part)
        })
    }
}

/// The base of `flambeau.Size`: a tuple whose slices are of its own class.
fn size_base(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let mut slots = [
        ffi::PyType_Slot { slot: ffi::Py_mp_subscript, pfunc: size_subscript as *mut std::ffi::c_void },
        ffi::PyType_Slot { slot: 0, pfunc: std::ptr::null_mut() },
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"flambeau._C._SizeBase".as_ptr(),
        basicsize: 0,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as u32,
        slots: slots.as_mut_ptr(),
    };
    let bases = PyTuple::new(py, [py.get_type::<PyTuple>()])?;
    // SAFETY: a complete specification.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpecWithBases(&mut spec, bases.as_ptr())) }
}

/// An instance of a subclass of `tuple` with the items of a tuple. A new reference.
fn of_class(py: Python<'_>, class: *mut ffi::PyTypeObject, tuple: Bound<'_, PyAny>) -> PyResult<*mut PyObject> {
    // SAFETY: `tuple.__new__(class, (items,))` with live objects; `tp_new` of `tuple` takes a subclass.
    unsafe {
        let slot = ffi::PyType_GetSlot(&raw mut ffi::PyTuple_Type, ffi::Py_tp_new);
        let new: ffi::newfunc = std::mem::transmute(slot);
        let arguments = PyTuple::new(py, [tuple])?;
        let object = new(class, arguments.as_ptr(), std::ptr::null_mut());
        if object.is_null() { Err(PyErr::fetch(py)) } else { Ok(object) }
    }
}

/// A `Size` that was asked for lately: programs ask for the same few again and again, and none ever changes. The fields are
/// read and written under the interpreter's lock, and together.
struct RecentSize {
    dims: AtomicUsize,
    sizes: [AtomicI64; RecentSize::DIMS],
    object: AtomicPtr<PyObject>,
}

static RECENT_SIZES: [RecentSize; RecentSize::COUNT] = [const {
    RecentSize {
        dims: AtomicUsize::new(usize::MAX),
        sizes: [const { AtomicI64::new(0) }; RecentSize::DIMS],
        object: AtomicPtr::new(std::ptr::null_mut()),
    }
}; RecentSize::COUNT];

impl RecentSize {
    const DIMS: usize = 5;
    const COUNT: usize = 128;

    /// The place of these sizes, if they are few.
    #[inline]
    fn of(sizes: &[i64]) -> Option<&'static RecentSize> {
        let mix = |hash: u64, size: &i64| (hash ^ *size as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        let hash = sizes.iter().fold(sizes.len() as u64, mix);
        (sizes.len() <= Self::DIMS).then(|| &RECENT_SIZES[hash as usize % Self::COUNT])
    }

    /// A new reference to the object, if it is that of these sizes.
    #[inline]
    fn get(&self, _py: Python<'_>, sizes: &[i64]) -> Option<*mut PyObject> {
        let same = self.dims.load(Relaxed) == sizes.len()
            && sizes.iter().zip(&self.sizes).all(|(size, own)| own.load(Relaxed) == *size);
        // SAFETY: the place owns a reference to its object, and the lock is held.
        same.then(|| unsafe { ffi::Py_NewRef(self.object.load(Relaxed)) })
    }

    /// Takes the place for the object of other sizes.
    fn set(&self, _py: Python<'_>, sizes: &[i64], object: *mut PyObject) {
        // SAFETY: a live object, which gains a reference, and one that the place gives up, if it had any.
        unsafe {
            let old = self.object.swap(ffi::Py_NewRef(object), Relaxed);
            self.dims.store(sizes.len(), Relaxed);
            for (own, size) in self.sizes.iter().zip(sizes) {
                own.store(*size, Relaxed);
            }
            ffi::Py_XDECREF(old);
        }
    }
}

/// `Size` of some sizes. A new reference.
#[inline]
pub fn size(py: Python<'_>, sizes: &[i64]) -> PyResult<*mut PyObject> {
    let place = RecentSize::of(sizes);
    match place.and_then(|place| place.get(py, sizes)) {
        Some(object) => Ok(object),
        None => new_size(py, sizes, place),
    }
}

#[cold]
fn new_size(py: Python<'_>, sizes: &[i64], place: Option<&'static RecentSize>) -> PyResult<*mut PyObject> {
    let tuple = PyTuple::new(py, sizes)?;
    let Some(class) = SIZE.get(py) else { return Ok(tuple.into_ptr()) };
    let object = of_class(py, class.as_ptr().cast(), tuple.into_any())?;
    if let Some(place) = place {
        place.set(py, sizes, object);
    }
    Ok(object)
}

/// `flambeau.Generator`.
#[pyclass(frozen, name = "Generator", module = "flambeau", subclass, weakref)]
pub struct GeneratorObject(pub flambeau::Generator);

#[pymethods]
impl GeneratorObject {
    #[new]
    #[pyo3(signature = (device=None))]
    fn new(device: Option<&Bound<'_, PyAny>>) -> PyResult<GeneratorObject> {
        if let Some(d) = device {
            let d = DeviceObject::new(d, None)?.device()?;
            if !d.is_cpu() {
                return Err(PyRuntimeError::new_err(format!(
                    "Device type {} is not supported for torch.Generator() api.",
                    d.kind
                )));
            }
        }
        Ok(GeneratorObject(flambeau::Generator::new(flambeau::Generator::new(0).initial_seed().max(DEFAULT_SEED))))
    }
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<Py<DeviceObject>> {
        device(py, Device::CPU)
    }
    fn manual_seed<'py>(slf: Bound<'py, Self>, seed: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        slf.get().0.manual_seed(seed_of(seed)?);
        Ok(slf)
    }
    fn seed(&self) -> u64 {
        self.0.seed()
    }
    fn initial_seed(&self) -> u64 {
        self.0.initial_seed()
    }
    fn get_state(&self) -> PyResult<crate::object::Wrapped> {
        let state = self.0.get_state();
        flambeau::Tensor::from_slice(&state).map(crate::object::Wrapped).map_err(raise)
    }
    fn set_state<'py>(slf: Bound<'py, Self>, new_state: crate::object::Argument) -> PyResult<Bound<'py, Self>> {
        if new_state.0.dtype() != DType::U8 {
            return Err(PyTypeError::new_err("RNG state must be a torch.ByteTensor"));
        }
        let bytes = new_state.0.to_vec::<u8>().map_err(raise)?;
        slf.get().0.set_state(&bytes).map_err(raise)?;
        Ok(slf)
    }
    fn clone_state(&self) -> GeneratorObject {
        GeneratorObject(self.0.fork())
    }
}

/// What PyTorch's generators are seeded with at first.
const DEFAULT_SEED: u64 = 67280421310721;

/// A seed as PyTorch takes it: negative ones wrap.
pub fn seed_of(seed: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(i) = seed.extract::<i64>() {
        return Ok(i as u64);
    }
    if let Ok(u) = seed.extract::<u64>() {
        return Ok(u);
    }
    match seed.is_instance_of::<pyo3::types::PyInt>() {
        true => Err(PyValueError::new_err("Overflow when unpacking long long")),
        false => Err(PyRuntimeError::new_err(format!(
            "manual_seed expected a long, but got {}",
            crate::number::type_name(seed.as_ptr())
        ))),
    }
}

/// Adds the types and their instances to the module.
///
/// # Errors
/// When Python cannot.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    m.add_class::<DTypeObject>()?;
    m.add_class::<DeviceObject>()?;
    m.add_class::<LayoutObject>()?;
    m.add_class::<MemoryFormatObject>()?;
    m.add_class::<GeneratorObject>()?;
    for d in DType::ALL {
        m.add(d.name(), dtype(py, d))?;
    }
    for name in NAMED {
        m.add(*name, Py::new(py, DTypeObject(Kind::Named(name)))?)?;
    }
    let other_names = [
        ("float", DType::F32),
        ("double", DType::F64),
        ("half", DType::F16),
        ("long", DType::I64),
        ("int", DType::I32),
        ("short", DType::I16),
        ("cfloat", DType::Complex64),
        ("cdouble", DType::Complex128),
    ];
    for (name, d) in other_names {
        m.add(name, dtype(py, d))?;
    }
    for l in [Layout::Strided, Layout::SparseCoo, Layout::SparseCsr] {
        m.add(l.to_string().trim_start_matches("torch."), layout(py, l))?;
    }
    for name in OTHER_LAYOUTS {
        m.add(*name, Py::new(py, LayoutObject(LayoutKind::Named(name)))?)?;
    }
    use MemoryFormat::{ChannelsLast, ChannelsLast3d, Contiguous, Preserve};
    for f in [Contiguous, Preserve, ChannelsLast, ChannelsLast3d] {
        let object = memory_format(py, f);
        m.add(object.get().name(), object)?;
    }
    m.add("default_generator", Py::new(py, GeneratorObject(flambeau::Generator::default_generator()))?)?;
    m.add("_SizeBase", size_base(py)?)?;
    m.add_function(wrap_pyfunction!(_set_size_class, m)?)?;
    Ok(())
}
