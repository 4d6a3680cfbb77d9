//! Every operator as a Python function and method, made from the registry.
//!
//! A Python method has no room for data of its own: the interpreter passes it the object and the arguments. So that each
//! operator still is an ordinary built-in function (fast calls, `help()`, signatures), there is one small entry point per
//! slot of a table, [`ENTRIES`], which knows its own number and nothing else.

use crate::error::raise;
use crate::object::{bound, tensor_of, tensor_type, wrap};
use crate::overrides;
use crate::parse::{Call, Converted, Overload, Parsed, hide_numbers, parse};
use flambeau::op::Op;
use flambeau::value::Outputs;
use flambeau::{Body, Form, Tensor, Value};
use parking_lot::RwLock;
use pyo3::exceptions::{PyRuntimeError, PySystemError, PyTypeError};
use pyo3::ffi::{self, PyObject};
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

/// A function written by hand: what is not an operator.
pub type Native = for<'a> fn(&Call<'a>) -> PyResult<*mut PyObject>;

/// What a table slot does.
pub enum Kind {
    /// The overloads of an operator name.
    Operator(Vec<Overload>),
    /// Something written by hand.
    Native(Native),
}

/// A function that Python can call, also as a method.
pub struct Function {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// The Python function, and the method of `Tensor`: what `__torch_function__` is told was called.
    pub function: AtomicPtr<PyObject>,
    /// As above.
    pub method: AtomicPtr<PyObject>,
    /// The type of its results, when it has several with names.
    result_type: AtomicPtr<ffi::PyTypeObject>,
    /// The type of those that `out=` gives.
    out_result_type: AtomicPtr<ffi::PyTypeObject>,
    number: usize,
    asks: Asks,
}

/// Who may take a call of a function over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// Modes and classes.
    All,
    /// Modes, but no classes.
    Modes,
    /// Neither.
    Nobody,
}

impl Asks {
    fn of(name: &str) -> Asks {
        match name {
            "tensor" | "as_tensor" => Asks::Modes,
            // (Iterating asks for the parts.)
            "as_subclass" | "__iter__" => Asks::Nobody,
            _ => Asks::All,
        }
    }
}

/// The methods that PyTorch's `Tensor` has: programs ask for them with `hasattr`.
static METHOD_NAMES: &str = include_str!("method_names.txt");

/// How results with names print; written in Python.
static RESULT_REPR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Sets how results with names print.
#[pyfunction]
pub fn _set_result_repr(py: Python<'_>, function: Py<PyAny>) {
    let _ = RESULT_REPR.set(py, function);
}

/// How many functions there can be.
const CAPACITY: usize = 4096;

static TABLE: [AtomicPtr<Function>; CAPACITY] = [const { AtomicPtr::new(std::ptr::null_mut()) }; CAPACITY];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static BY_NAME: RwLock<Option<HashMap<String, &'static Function>>> = RwLock::new(None);

/// The function called `name`.
pub fn find(name: &str) -> Option<&'static Function> {
    BY_NAME.read().as_ref()?.get(name).copied()
}

unsafe extern "C" fn entry<const N: usize>(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: ffi::Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter calls entries of filled slots only.
    unsafe { enter(this, args, count, names, TABLE[N].load(Relaxed)) }
}

/// What all entries do, once.
#[inline(never)]
unsafe extern "C" fn enter(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: ffi::Py_ssize_t,
    names: *mut PyObject,
    function: *const Function,
) -> *mut PyObject {
    // SAFETY: a function of the table, called by the interpreter with its lock held and by the convention of
    // METH_FASTCALL | METH_KEYWORDS; functions (not methods) are made with a null `this`.
    unsafe { guarded(|py| (*function).run(&Call::new(py, this, args, count as usize, names))) }
}

/// Runs `f` and gives its result, or null with the Python exception set. A panic becomes an exception too.
///
/// # Safety
/// The interpreter's lock is held.
#[inline(always)]
pub unsafe fn guarded(f: impl FnOnce(Python<'_>) -> PyResult<*mut PyObject>) -> *mut PyObject {
    // SAFETY: as the caller says.
    let py = unsafe { Python::assume_attached() };
    let result = catch_unwind(AssertUnwindSafe(|| f(py)));
    match result {
        Ok(Ok(object)) => object,
        Ok(Err(e)) => {
            e.restore(py);
            std::ptr::null_mut()
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            PanicException::new_err(text.to_string()).restore(py);
            std::ptr::null_mut()
        }
    }
}

type Entry = unsafe extern "C" fn(*mut PyObject, *const *mut PyObject, ffi::Py_ssize_t, *mut PyObject) -> *mut PyObject;

macro_rules! entries {
    (@16 $base:expr) => { [
        entry::<{ $base }>, entry::<{ $base + 1 }>, entry::<{ $base + 2 }>, entry::<{ $base + 3 }>,
        entry::<{ $base + 4 }>, entry::<{ $base + 5 }>, entry::<{ $base + 6 }>, entry::<{ $base + 7 }>,
        entry::<{ $base + 8 }>, entry::<{ $base + 9 }>, entry::<{ $base + 10 }>, entry::<{ $base + 11 }>,
        entry::<{ $base + 12 }>, entry::<{ $base + 13 }>, entry::<{ $base + 14 }>, entry::<{ $base + 15 }>,
    ] };
    (@256 $base:expr) => { [
        entries!(@16 $base), entries!(@16 $base + 16), entries!(@16 $base + 32), entries!(@16 $base + 48),
        entries!(@16 $base + 64), entries!(@16 $base + 80), entries!(@16 $base + 96), entries!(@16 $base + 112),
        entries!(@16 $base + 128), entries!(@16 $base + 144), entries!(@16 $base + 160), entries!(@16 $base + 176),
        entries!(@16 $base + 192), entries!(@16 $base + 208), entries!(@16 $base + 224), entries!(@16 $base + 240),
    ] };
    () => { [
        entries!(@256 0), entries!(@256 256), entries!(@256 512), entries!(@256 768),
        entries!(@256 1024), entries!(@256 1280), entries!(@256 1536), entries!(@256 1792),
        entries!(@256 2048), entries!(@256 2304), entries!(@256 2560), entries!(@256 2816),
        entries!(@256 3072), entries!(@256 3328), entries!(@256 3584), entries!(@256 3840),
    ] };
}

/// One entry point per slot of the table.
static ENTRIES: [[[Entry; 16]; 16]; CAPACITY / 256] = entries!();

/// Puts a function into the table.
///
/// # Errors
/// When the table is full.
pub fn add(name: &str, kind: Kind) -> PyResult<&'static Function> {
    let number = COUNT.fetch_add(1, Relaxed);
    if number >= CAPACITY {
        return Err(PySystemError::new_err(format!("there is no room for the function '{name}': {CAPACITY} exist")));
    }
    let function: &'static Function = Box::leak(Box::new(Function {
        name: name.to_string(),
        kind,
        function: AtomicPtr::default(),
        method: AtomicPtr::default(),
        result_type: AtomicPtr::default(),
        out_result_type: AtomicPtr::default(),
        number,
        asks: Asks::of(name),
    }));
    TABLE[number].store(std::ptr::from_ref(function).cast_mut(), Relaxed);
    BY_NAME.write().get_or_insert_default().insert(name.to_string(), function);
    Ok(function)
}

/// A function that is in no table: Python calls it through an object of its own.
pub fn unlisted(name: &str, overloads: Vec<Overload>) -> &'static Function {
    Box::leak(Box::new(Function {
        name: name.to_string(),
        kind: Kind::Operator(overloads),
        function: AtomicPtr::default(),
        method: AtomicPtr::default(),
        result_type: AtomicPtr::default(),
        out_result_type: AtomicPtr::default(),
        number: usize::MAX,
        asks: Asks::All,
    }))
}

impl Function {
    /// The definition that Python makes functions and methods from; it is never freed.
    fn definition(&self) -> *mut ffi::PyMethodDef {
        let name = CString::new(self.name.clone()).unwrap_or_default();
        let doc = CString::new(self.doc().replace('\0', "")).unwrap_or_default();
        Box::leak(Box::new(ffi::PyMethodDef {
            ml_name: name.into_raw(),
            ml_meth: ffi::PyMethodDefPointer {
                PyCFunctionFastWithKeywords: ENTRIES[self.number / 256][self.number / 16 % 16][self.number % 16],
            },
            ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
            ml_doc: doc.into_raw(),
        }))
    }

    /// Its documentation: what it does, and its schemas.
    pub fn doc(&self) -> String {
        let Kind::Operator(overloads) = &self.kind else { return String::new() };
        let mut text = String::new();
        for o in overloads {
            text.push_str(o.op.schema_text);
            text.push('\n');
        }
        let doc = overloads.iter().map(|o| o.op.functional().doc).find(|d| !d.is_empty()).unwrap_or("");
        text.push('\n');
        text.extend(doc.lines().flat_map(|l| [l.trim(), "\n"]));
        text
    }

    /// The Python function.
    pub fn make_function<'py>(&self, py: Python<'py>, module: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: a complete definition that lives on.
        let object = unsafe {
            let f = ffi::PyCFunction_NewEx(self.definition(), std::ptr::null_mut(), module.as_ptr());
            Bound::from_owned_ptr_or_err(py, f)?
        };
        self.function.store(object.clone().into_ptr(), Relaxed);
        Ok(object)
    }

    /// The method of `Tensor`.
    pub fn make_method<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: as above.
        let object = unsafe {
            let f = ffi::PyDescr_NewMethod(tensor_type(), self.definition());
            Bound::from_owned_ptr_or_err(py, f)?
        };
        self.method.store(object.clone().into_ptr(), Relaxed);
        Ok(object)
    }

    /// Whether its first argument is a tensor: all functions written by hand but those that make tensors.
    fn takes_tensor(&self) -> bool {
        !matches!(self.name.as_str(), "tensor" | "as_tensor")
    }

    /// Whether it is a method too.
    pub fn has_method(&self) -> bool {
        match &self.kind {
            Kind::Operator(overloads) => {
                let listed = self.name.starts_with("__") || METHOD_NAMES.split_whitespace().any(|n| n == self.name);
                listed && overloads.iter().any(|o| o.this.is_some())
            }
            Kind::Native(_) => true,
        }
    }

    /// The object that stands for it where a call is handed to `__torch_function__`.
    pub fn callable(&self, method: bool) -> *mut PyObject {
        let of = |method: bool| if method { self.method.load(Relaxed) } else { self.function.load(Relaxed) };
        let first = of(method);
        let own = if first.is_null() { of(!method) } else { first };
        match find(&self.name) {
            // One overload stands in for the operator that it belongs to.
            Some(listed) if own.is_null() && !std::ptr::eq(listed, self) => listed.callable(method),
            _ => own,
        }
    }

    /// Runs a call: hands it to whoever overrides it, else parses the arguments and calls the operator.
    #[inline]
    pub fn run(&'static self, call: &Call<'_>) -> PyResult<*mut PyObject> {
        if overrides::wanted(call)
            && self.asks_about(call)
            && let Some(result) = overrides::handle(self.callable(!call.this.is_null()), call)?
        {
            return Ok(result);
        }
        self.run_unasked(call)
    }

    /// As [`Function::run`] for Python's syntax: who overrides the call is told of the method `name`, as by PyTorch.
    pub fn run_as(&'static self, name: &str, call: &Call<'_>) -> PyResult<*mut PyObject> {
        if overrides::wanted(call)
            && let Some(result) = overrides::handle_method(name, call)?
        {
            return Ok(result);
        }
        self.run_unasked(call)
    }

    /// Whether modes and classes that are there and would take the call over may. This package's own may always whose
    /// tensors stand for something else than their data.
    #[cold]
    fn asks_about(&self, call: &Call<'_>) -> bool {
        match self.asks {
            Asks::All => true,
            Asks::Modes if overrides::has_mode() => true,
            Asks::Modes | Asks::Nobody => overrides::has_stand_in(call),
        }
    }

    #[inline]
    fn run_unasked(&'static self, call: &Call<'_>) -> PyResult<*mut PyObject> {
        match &self.kind {
            Kind::Native(f) => {
                if let (true, Some(&first)) = (call.this.is_null() && self.takes_tensor(), call.args.first())
                    && tensor_of(first).is_none()
                {
                    return Err(PyTypeError::new_err(format!(
                        "{}(): argument 'input' (position 1) must be Tensor, not {}",
                        self.name,
                        crate::number::type_name(first)
                    )));
                }
                f(call)
            }
            Kind::Operator(overloads) => {
                let mut parsed = Parsed::default();
                let overload = parse(overloads, call, &mut parsed)?;
                self.run_overload(overload, parsed.arguments.as_mut_slice(), &parsed.written, call)
            }
        }
    }

    #[inline]
    fn run_overload(
        &'static self,
        overload: &'static Overload,
        arguments: &mut [Converted],
        written: &[*mut PyObject],
        call: &Call<'_>,
    ) -> PyResult<*mut PyObject> {
        if overload.fills_out()
            && let Some(named) = call.named("dtype")
        {
            check_named_dtype(call.py, named, arguments.last())?;
        }
        if crate::autocast::is_active() {
            crate::autocast::cast(overload.op, arguments).map_err(raise)?;
        }
        // (One by one: collecting them costs a tenth of a small call.)
        let mut values: SmallVec<[Value<'_>; 10]> = SmallVec::new();
        for argument in arguments.iter() {
            values.push(argument.borrow());
        }
        let outputs = call_operator(call.py, overload.op, &values)?;
        if overload.is_factory()
            && let Some(flag) = call.named("requires_grad")
        {
            require_grad(call.py, &self.name, flag, &outputs)?;
        }
        match *written {
            [list] if matches!(outputs, Outputs::Many(_)) && crate::object::tensor_of(list).is_none() => {
                replace_items(call.py, list, &outputs);
            }
            _ => {
                for (k, &object) in written.iter().enumerate() {
                    replace_resized(object, outputs.get(k));
                }
            }
        }
        // Operators that write to lists give back the list.
        if let (Outputs::None, Some(&list)) = (&outputs, written.first())
            && self.name.starts_with("_foreach_")
        {
            // SAFETY: the call's argument, which gains a reference.
            return Ok(unsafe { ffi::Py_NewRef(list) });
        }
        self.wrap_outputs(call.py, overload.op, outputs)
    }

    /// An operator's results as Python objects.
    #[inline]
    fn wrap_outputs(&'static self, py: Python<'_>, op: &'static Op, outputs: Outputs) -> PyResult<*mut PyObject> {
        match outputs {
            Outputs::One(t) if op.schema().returns.first().is_none_or(|r| r.ty.list.is_none()) => wrap(py, t),
            other => self.wrap_several(py, op, other),
        }
    }

    fn wrap_several(&'static self, py: Python<'_>, op: &'static Op, outputs: Outputs) -> PyResult<*mut PyObject> {
        let tensors = match outputs {
            Outputs::None => {
                // SAFETY: a new reference to `None`.
                unsafe {
                    ffi::Py_INCREF(ffi::Py_None());
                    return Ok(ffi::Py_None());
                }
            }
            Outputs::Scalar(s) => return Ok(crate::number::to_python(py, s)),
            Outputs::One(t) => vec![Some(t)],
            // Lists of tensors that are written are not given back.
            Outputs::Many(_) if op.schema().returns.is_empty() => return Ok(py.None().into_ptr()),
            Outputs::Many(v) => v,
        };
        let mut items = Vec::with_capacity(tensors.len());
        for t in tensors {
            items.push(match t {
                Some(t) => bound(py, t)?,
                None => py.None().into_bound(py),
            });
        }
        let returns = &op.schema().returns;
        if returns.len() == 1 && returns[0].ty.list.is_none() {
            // An operator that may leave its one result undefined.
            return Ok(items.pop().map_or_else(|| py.None().into_ptr(), Bound::into_ptr));
        }
        if returns.len() < 2 || returns.iter().any(|r| r.name.is_none()) {
            return Ok(PyTuple::new(py, items)?.into_ptr());
        }
        let kind = self.named_result(py, op)?;
        // SAFETY: a sequence type with as many fields as items; each item is given away.
        unsafe {
            let result = ffi::PyStructSequence_New(kind);
            if result.is_null() {
                return Err(PyErr::fetch(py));
            }
            for (i, item) in items.into_iter().enumerate() {
                ffi::PyStructSequence_SetItem(result, i as ffi::Py_ssize_t, item.into_ptr());
            }
            Ok(result)
        }
    }

    /// `torch.return_types.max` and the like, made when first needed. What `out=` gives has a type of its own, `max_out`.
    fn named_result(&'static self, py: Python<'_>, op: &'static Op) -> PyResult<*mut ffi::PyTypeObject> {
        let (place, suffix) = match op.body {
            Body::Variant(Form::Out, _) => (&self.out_result_type, "_out"),
            _ => (&self.result_type, ""),
        };
        let known = place.load(Relaxed);
        if !known.is_null() {
            return Ok(known);
        }
        let leak = |s: &str| CString::new(s).unwrap_or_default().into_raw().cast_const();
        let mut fields: Vec<ffi::PyStructSequence_Field> = op
            .schema()
            .returns
            .iter()
            .map(|r| ffi::PyStructSequence_Field {
                name: leak(r.name.as_deref().unwrap_or("_")),
                doc: std::ptr::null(),
            })
            .collect();
        let count = fields.len();
        fields.push(ffi::PyStructSequence_Field { name: std::ptr::null(), doc: std::ptr::null() });
        let mut description = ffi::PyStructSequence_Desc {
            name: leak(&format!("torch.return_types.{}{suffix}", self.name)),
            doc: std::ptr::null(),
            fields: fields.leak().as_mut_ptr(),
            n_in_sequence: count as i32,
        };
        // SAFETY: a complete description that lives on.
        let kind = unsafe { ffi::PyStructSequence_NewType(&mut description) };
        if kind.is_null() {
            return Err(PyErr::fetch(py));
        }
        place.store(kind, Relaxed);
        if let Some(repr) = RESULT_REPR.get(py) {
            // SAFETY: a type that is never freed.
            unsafe { Bound::from_borrowed_ptr(py, kind.cast()) }.setattr("__repr__", repr)?;
        }
        Ok(kind)
    }

    /// The type of its results, or of those that `out=` gives, if they have names.
    pub fn result_type<'py>(&'static self, py: Python<'py>, out: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Kind::Operator(overloads) = &self.kind else { return Ok(None) };
        let named = |o: &&Overload| {
            let returns = &o.op.schema().returns;
            let form = matches!(o.op.body, Body::Variant(Form::Out, _));
            form == out && returns.len() > 1 && returns.iter().all(|r| r.name.is_some())
        };
        let Some(o) = overloads.iter().find(named) else { return Ok(None) };
        let kind = self.named_result(py, o.op)?;
        // SAFETY: a type that is never freed.
        Ok(Some(unsafe { Bound::from_borrowed_ptr(py, kind.cast()) }))
    }
}

/// From this many elements on, other Python threads may run meanwhile: letting go of the interpreter's lock costs as
/// much as adding a few hundred numbers.
const WORTH_RELEASING: i64 = 4096;

/// Calls an operator, with the interpreter's lock released if there is much to do.
#[inline]
pub fn call_operator(py: Python<'_>, op: &'static Op, values: &[Value<'_>]) -> PyResult<Outputs> {
    let mut work = 0;
    let mut tensors = false;
    for v in values {
        match v {
            Value::Tensor(t) => {
                tensors = true;
                work += t.numel();
            }
            Value::Tensors(ts) => {
                tensors = true;
                work += ts.iter().map(Tensor::numel).sum::<i64>();
            }
            Value::Ints(sizes) if !tensors => work += sizes.iter().product::<i64>().abs(),
            Value::Int(_) | Value::Scalar(_) if !tensors => work += WORTH_RELEASING,
            _ => {}
        }
    }
    if work < WORTH_RELEASING {
        return op.call(values).map_err(raise);
    }
    released(py, || op.call(values)).map_err(raise)?.checked(py)
}

/// Runs `f` with the interpreter's lock released. It may hold references to tensors' handles, which are not Python
/// objects; Python code that it leads to (hooks, destructors) takes the lock again.
pub fn released<T: Send>(py: Python<'_>, f: impl FnOnce() -> T + Send) -> T {
    py.detach(f)
}

/// Lets signals that arrived during long work (Ctrl-C) raise.
trait Checked: Sized {
    fn checked(self, py: Python<'_>) -> PyResult<Self>;
}
impl Checked for Outputs {
    fn checked(self, py: Python<'_>) -> PyResult<Outputs> {
        py.check_signals()?;
        Ok(self)
    }
}

/// `dtype=` beside an `out=` tensor, which must be of it.
#[cold]
fn check_named_dtype(py: Python<'_>, named: *mut PyObject, out: Option<&Converted>) -> PyResult<()> {
    // SAFETY: a live object of the call.
    let named = unsafe { Bound::from_borrowed_ptr(py, named) };
    match (crate::convert::dtype_of(&named)?, out.map(Converted::borrow)) {
        (Some(dtype), Some(Value::Tensor(out))) if dtype != out.dtype() => Err(PyRuntimeError::new_err(format!(
            "dtype {} does not match dtype of out parameter ({})",
            dtype.scalar_type_name(),
            out.dtype().scalar_type_name()
        ))),
        _ => Ok(()),
    }
}

/// An operator that resizes what it writes gives a new handle, which is the object's from now on.
#[inline]
fn replace_resized(object: *mut PyObject, result: Option<&Tensor>) {
    if let (Some(t), Some(given)) = (result, crate::object::tensor_of(object))
        && !t.is_same(&given)
        && t.shares_storage_with(&given)
    {
        // SAFETY: a live tensor, and the lock is held.
        unsafe { crate::object::replace(object, t.clone()) };
    }
}

/// [`replace_resized`] for the tensors of a list or tuple that is written.
#[cold]
fn replace_items(py: Python<'_>, list: *mut PyObject, outputs: &Outputs) {
    if list.is_null() {
        return;
    }
    // SAFETY: a live argument of the call.
    let list = unsafe { Bound::from_borrowed_ptr(py, list) };
    // (Its items as they are, and not what a subclass iterates over: those may be gone.)
    if let Ok(list) = list.cast::<PyList>() {
        list.iter().enumerate().for_each(|(k, item)| replace_resized(item.as_ptr(), outputs.get(k)));
    } else if let Ok(tuple) = list.cast::<PyTuple>() {
        tuple.iter().enumerate().for_each(|(k, item)| replace_resized(item.as_ptr(), outputs.get(k)));
    }
}

/// `requires_grad=` of functions that make tensors.
fn require_grad(py: Python<'_>, name: &str, flag: *mut PyObject, outputs: &Outputs) -> PyResult<()> {
    // SAFETY: comparisons of addresses.
    let (yes, no) = unsafe { (flag == ffi::Py_True(), flag == ffi::Py_False() || flag == ffi::Py_None()) };
    if !yes && !no {
        return Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "{name}(): argument 'requires_grad' must be bool, not {}",
            crate::number::type_name(flag)
        )));
    }
    let _ = py;
    match (yes, outputs.get(0)) {
        (true, Some(t)) => t.set_requires_grad(true).map_err(|e| match e.message().starts_with("only Tensors") {
            true => PyRuntimeError::new_err("Only Tensors of floating point and complex dtype can require gradients"),
            false => raise(e),
        }),
        _ => Ok(()),
    }
}

/// A function's name, looked up once.
pub struct Name {
    text: &'static str,
    seen: Option<&'static str>,
    found: AtomicPtr<Function>,
}

impl Name {
    /// The function called `text`.
    pub const fn new(text: &'static str) -> Name {
        Name { text, seen: None, found: AtomicPtr::new(std::ptr::null_mut()) }
    }
    /// The same, and the method of `Tensor` that those who take calls over are told of.
    pub const fn seen_as(self, method: &'static str) -> Name {
        Name { text: self.text, seen: Some(method), found: self.found }
    }
    /// Runs a call of the function.
    ///
    /// # Errors
    /// When it does not exist, and its own.
    #[inline]
    pub fn run(&self, call: &Call<'_>) -> PyResult<*mut PyObject> {
        let function = self.get()?;
        match self.seen {
            None => function.run(call),
            Some(method) => function.run_as(method, call),
        }
    }
    /// The function.
    ///
    /// # Errors
    /// When it does not exist.
    #[inline]
    pub fn get(&self) -> PyResult<&'static Function> {
        let known = self.found.load(Relaxed);
        if !known.is_null() {
            // SAFETY: functions are never freed.
            return Ok(unsafe { &*known });
        }
        let f = find(self.text)
            .ok_or_else(|| PyRuntimeError::new_err(format!("the operator '{}' does not exist", self.text)))?;
        self.found.store(std::ptr::from_ref(f).cast_mut(), Relaxed);
        Ok(f)
    }
}

// ---- filling the table ---------------------------------------------------------------------------

/// Makes a function of every operator name in the registry that has none yet.
///
/// # Errors
/// When the table is full.
pub fn add_operators(py: Python<'_>) -> PyResult<()> {
    let mut names: HashMap<&str, Vec<&'static Op>> = HashMap::new();
    for op in flambeau::registry::all() {
        if op.schema().namespace == "aten" {
            names.entry(op.name()).or_default().push(op);
        }
    }
    for (name, ops) in names {
        if find(name).is_none() {
            let mut overloads: Vec<Overload> = ops.into_iter().map(|op| Overload::new(py, op)).collect();
            hide_numbers(&mut overloads);
            if overloads.iter().any(Overload::is_factory) {
                overloads.iter_mut().for_each(Overload::beside_factory);
            }
            add(name, Kind::Operator(overloads))?;
        }
    }
    Ok(())
}

/// Every function there is.
pub fn all() -> Vec<&'static Function> {
    BY_NAME.read().iter().flatten().map(|(_, f)| *f).collect()
}

/// The tensor whose method is called.
///
/// # Errors
/// When a plain function was called without one.
pub fn this(call: &Call<'_>) -> PyResult<Tensor> {
    let object = if call.this.is_null() { call.args.first().copied() } else { Some(call.this) };
    object.and_then(tensor_of).ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("expected a Tensor"))
}
