//! Operators: one static [`Op`] per overload, with everything the system knows about it.
//!
//! An `Op` is written by the macros of `macros.rs` in a file of `ops/`, or made at run time by another crate
//! ([`crate::registry::OpBuilder`]). Dispatch, autograd, bindings, listings and derived tests read nothing else.

use crate::autograd::recipe::Recipe;
use crate::autograd::{Derivative, Forward};
use crate::keys::{KEY_COUNT, Key, KeySet};
use crate::out::OutRule;
use crate::pointwise::Pointwise;
use crate::schema::{self, Schema};
use crate::value::{Outputs, Value};
use crate::{DType, Device, Dims, Error, ErrorKind, Result, Tensor};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The one calling convention of every kernel and layer: the operator, the keys that have not run yet, the arguments.
pub type KernelFn = fn(&'static Op, KeySet, &[Value<'_>]) -> Result<Outputs>;

/// A kernel that captures something; registered at run time.
pub type DynKernel = dyn Fn(&'static Op, KeySet, &[Value<'_>]) -> Result<Outputs> + Send + Sync;

/// What a structured operator's output will be.
#[derive(Clone, Debug)]
pub struct TensorSpec {
    /// Its sizes.
    pub sizes: Dims,
    /// Its strides; row-major when absent.
    pub strides: Option<Dims>,
    /// Its dtype.
    pub dtype: DType,
    /// Its device.
    pub device: Device,
}

impl TensorSpec {
    /// A row-major output.
    pub fn new(sizes: impl Into<Dims>, dtype: DType, device: Device) -> TensorSpec {
        TensorSpec { sizes: sizes.into(), strides: None, dtype, device }
    }

    /// A row-major output of dtype and device of `like`.
    pub fn like(sizes: impl Into<Dims>, like: &Tensor) -> TensorSpec {
        TensorSpec::new(sizes, like.dtype(), like.device())
    }

    /// The same with other strides.
    #[must_use]
    pub fn strided(mut self, strides: Dims) -> TensorSpec {
        self.strides = Some(strides);
        self
    }

    /// The same with another dtype.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> TensorSpec {
        self.dtype = dtype;
        self
    }

    /// Allocates it, uninitialised.
    ///
    /// # Errors
    /// When the device cannot.
    pub fn allocate(self) -> Result<Tensor> {
        match self.strides {
            None => Tensor::fresh(self.device, self.dtype, self.sizes),
            Some(strides) => {
                crate::ensure!(self.sizes.len() == strides.len(), "mismatch in length of strides and shape");
                crate::ensure!(strides.iter().all(|&s| s >= 0), "negative strides are not supported, got {strides:?}");
                crate::dims::checked_numel(&self.sizes)?;
                Tensor::fresh_strided(self.device, self.dtype, self.sizes, strides)
            }
        }
    }
}

/// The outputs a structured operator will write, in order.
pub type Plan = SmallVec<[TensorSpec; 1]>;
/// A structured operator's shape rule: arguments in, outputs' geometry out. Reads no data.
pub type PlanFn = fn(&[Value<'_>]) -> Result<Plan>;
/// A structured operator's CPU kernel: writes every element of the given outputs, which have the planned sizes and
/// dtypes and any strides, and share no memory with the inputs (unless the operator is elementwise).
pub type RunFn = fn(&[Value<'_>], &[Tensor]) -> Result<()>;

/// What an operator does, from which the kernels of all backends come.
#[derive(Clone, Copy)]
pub enum Body {
    /// Written once per element; every form and backend is derived. See `pointwise.rs`.
    Pointwise(&'static Pointwise),
    /// A shape rule and one CPU kernel that writes into given outputs. Functional, in-place, `out=` and Meta forms are
    /// derived.
    Structured {
        /// The shape rule.
        plan: PlanFn,
        /// The CPU kernel.
        run: RunFn,
    },
    /// A CPU kernel and a Meta kernel that make their own outputs.
    Kernels {
        /// The CPU kernel.
        cpu: KernelFn,
        /// The same in shapes only.
        meta: KernelFn,
    },
    /// One kernel for every backend that touches no data: views and metadata.
    AnyBackend(KernelFn),
    /// An expression over other operators: right on every backend, differentiable through them.
    Composite(KernelFn),
    /// An expression over other operators for every backend, with a derivative of its own.
    Explicit(KernelFn),
    /// The in-place or `out=` form of another operator, derived from it.
    Variant(Form, &'static Op),
    /// The in-place form of another operator with a CPU kernel of its own, for operators that touch few elements. (The
    /// functional form is then a copy and this.)
    InPlace(KernelFn, &'static Op),
    /// Nothing built in: kernels come by registration.
    Registered,
}

/// How a derived form gives its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Into the first argument.
    InPlace,
    /// Into the trailing `out` arguments, resized if need be.
    Out,
    /// Another overload with the same arguments in the same order (say, a number for a tensor).
    Overload,
}

/// A kernel registered at run time, for one key.
struct Override {
    key: Key,
    id: u64,
    kernel: &'static DynKernel,
    location: String,
}

/// What is made of a schema's text, and what is wrong with it if nothing could be.
struct Parsed {
    schema: Schema,
    error: Option<Error>,
}

/// One operator overload.
pub struct Op {
    /// The schema, in PyTorch's language.
    pub schema_text: &'static str,
    /// What it computes, for users.
    pub doc: &'static str,
    /// Where the entry stands: file and line.
    pub location: (&'static str, u32),
    /// What it does.
    pub body: Body,
    /// Reverse-mode derivative.
    pub derivative: Derivative,
    /// Forward-mode derivative.
    pub forward: Forward,
    /// Makes example arguments for the derived tests.
    pub samples: Option<crate::samples::SamplesFn>,
    /// The largest error of an element, in units of the last place of the output dtype, that the derived tests accept
    /// against the reference device in double precision.
    pub ulp: f64,
    /// Which tensors its `out=` form writes to.
    pub out_rule: OutRule,
    /// Of its results, how many take part in differentiation: the first ones.
    pub differentiable_results: usize,
    schema: OnceLock<Parsed>,
    mutated: OnceLock<u64>,
    required: OnceLock<u64>,
    recipe: OnceLock<Box<Recipe>>,
    mutates: bool,
    parameters: usize,
    /// Whether another crate registered it.
    foreign: bool,
    /// A call with fewer arguments needs no look before it goes its way. None does where something is written, or where
    /// kernels of another crate rely on what the schema says.
    unchecked_below: usize,
    table: [AtomicPtr<()>; KEY_COUNT],
    overrides: Mutex<Vec<Override>>,
}

impl Op {
    /// A new operator; the fields are public for the macros to fill in.
    pub const fn new(schema_text: &'static str, body: Body) -> Op {
        let schema::Facts { parameters, mutates } = schema::facts(schema_text);
        Op {
            schema_text,
            doc: "",
            location: ("", 0),
            body,
            derivative: Derivative::NonDifferentiable,
            forward: Forward::FromBackward,
            samples: None,
            ulp: 2.0,
            out_rule: OutRule::CASTABLE,
            differentiable_results: usize::MAX,
            schema: OnceLock::new(),
            mutated: OnceLock::new(),
            required: OnceLock::new(),
            recipe: OnceLock::new(),
            mutates,
            parameters,
            foreign: false,
            unchecked_below: if mutates { 0 } else { parameters + 1 },
            table: [const { AtomicPtr::new(std::ptr::null_mut()) }; KEY_COUNT],
            overrides: Mutex::new(Vec::new()),
        }
    }

    /// Makes it one of another crate: what its schema says about arguments is checked before its kernels see them.
    pub(crate) const fn foreign(mut self) -> Op {
        (self.foreign, self.unchecked_below) = (true, 0);
        self
    }
    /// Sets the documentation.
    #[must_use]
    pub const fn doc(mut self, doc: &'static str) -> Op {
        self.doc = doc;
        self
    }
    /// Sets where the entry stands.
    #[must_use]
    pub const fn at(mut self, file: &'static str, line: u32) -> Op {
        self.location = (file, line);
        self
    }
    /// Sets the reverse-mode derivative.
    #[must_use]
    pub const fn derivative(mut self, derivative: Derivative) -> Op {
        self.derivative = derivative;
        self
    }
    /// Sets the forward-mode derivative.
    #[must_use]
    pub const fn forward(mut self, forward: Forward) -> Op {
        self.forward = forward;
        self
    }
    /// Sets the examples for the derived tests.
    #[must_use]
    pub const fn samples(mut self, samples: crate::samples::SamplesFn) -> Op {
        self.samples = Some(samples);
        self
    }
    /// Sets the accuracy the derived tests ask for.
    #[must_use]
    pub const fn ulp(mut self, ulp: f64) -> Op {
        self.ulp = ulp;
        self
    }
    /// Sets how many of its results, from the first on, take part in differentiation.
    #[must_use]
    pub const fn differentiable_results(mut self, count: usize) -> Op {
        self.differentiable_results = count;
        self
    }
    /// Sets which tensors its `out=` form writes to.
    #[must_use]
    pub const fn out_rule(mut self, rule: OutRule) -> Op {
        self.out_rule = rule;
        self
    }

    /// The parsed schema; one without parameters and results where the text is none.
    pub fn schema(&self) -> &Schema {
        &self.parsed().schema
    }

    fn parsed(&self) -> &Parsed {
        self.schema.get_or_init(|| match Schema::parse(self.schema_text) {
            Ok(schema) => Parsed { schema, error: None },
            Err(error) => Parsed { schema: Schema::unreadable(self.name()), error: Some(error) },
        })
    }

    /// How many parameters it has.
    #[inline(always)]
    pub(crate) fn parameters(&self) -> usize {
        self.parameters
    }

    /// The operator's name without overload (`add_`).
    pub fn name(&self) -> &str {
        let text = self.schema_text;
        let start = text.find("::").map_or(0, |i| i + 2);
        let end = text.find(['.', '(']).unwrap_or(text.len());
        &text[start..end]
    }

    /// The name with overload (`add_.Tensor`).
    pub fn full_name(&self) -> &str {
        let text = self.schema_text;
        let start = text.find("::").map_or(0, |i| i + 2);
        &text[start..text.find('(').unwrap_or(text.len())]
    }

    /// The operator this one is the in-place or `out=` form of, or itself.
    pub fn functional(&'static self) -> &'static Op {
        match self.body {
            Body::Variant(_, base) | Body::InPlace(_, base) => base,
            _ => self,
        }
    }

    /// The accuracy of the operator this one is a form of: for its other names.
    pub const fn accuracy(&self) -> f64 {
        match self.body {
            Body::Variant(_, base) | Body::InPlace(_, base) => base.ulp,
            _ => self.ulp,
        }
    }

    /// Whether it writes to an argument.
    #[inline(always)]
    pub fn mutates(&self) -> bool {
        self.mutates
    }

    /// Which arguments it writes, one bit each.
    pub fn mutated(&self) -> u64 {
        *self.mutated.get_or_init(|| {
            let written = |p: &crate::schema::Param| p.alias.as_ref().is_some_and(|a| a.write);
            self.schema().params.iter().enumerate().filter(|(_, p)| written(p)).fold(0, |m, (i, _)| m | 1 << i)
        })
    }

    /// The arguments that may neither be left out nor be `None`, one bit each.
    #[inline]
    pub(crate) fn required(&self) -> u64 {
        *self.required.get_or_init(|| {
            let needed = |p: &crate::schema::Param| p.default.is_none() && !p.ty.takes(&Value::None);
            self.schema().params.iter().enumerate().filter(|(_, p)| needed(p)).fold(0, |m, (i, _)| m | 1 << i)
        })
    }

    /// The derivative formulas with their names resolved.
    ///
    /// # Errors
    /// When a formula names something that the schema lacks.
    #[inline]
    pub(crate) fn recipe(&'static self) -> Result<&'static Recipe> {
        let base = self.functional();
        match base.recipe.get() {
            Some(recipe) => Ok(recipe),
            None => {
                let recipe = Box::new(Recipe::of(base)?);
                Ok(base.recipe.get_or_init(|| recipe))
            }
        }
    }

    /// Whether its results are views of an argument.
    pub fn is_view(&self) -> bool {
        self.schema().is_view()
    }

    /// Whether it is differentiable through the operators it is made of.
    #[inline]
    pub fn is_composite(&self) -> bool {
        match self.body {
            Body::Composite(_) => true,
            Body::Variant(_, base) | Body::InPlace(_, base) => matches!(base.body, Body::Composite(_)),
            _ => false,
        }
    }

    /// Runs the operator: collects the arguments' dispatch keys and passes the call through the layers they name. What is
    /// left out at the end, or `None`, is the schema's default where there is one.
    ///
    /// # Errors
    /// Whatever is wrong with the arguments, by PyTorch's rules.
    #[inline]
    pub fn call(&'static self, args: &[Value<'_>]) -> Result<Outputs> {
        let mut keys = KeySet::EMPTY;
        for a in args {
            keys = keys.with(match a {
                Value::Tensor(t) => t.key_set(),
                Value::Tensors(ts) => ts.iter().fold(KeySet::EMPTY, |k, t| k.with(t.key_set())),
                Value::OptionalTensors(ts) => ts.iter().flatten().fold(KeySet::EMPTY, |k, t| k.with(t.key_set())),
                _ => continue,
            });
        }
        if keys.is_empty() {
            keys = factory_keys(args);
        }
        let local = crate::keys::local();
        let own = keys.backends();
        let keys = keys.with(local.included).without(local.excluded);
        if keys.backends() != own {
            self.check_memory(keys, args)?;
        }
        if args.len() < self.unchecked_below {
            return self.run_next(keys, args).or_else(|e| self.call_again(args, e));
        }
        crate::dispatch::check_surplus(self, args)?;
        if self.foreign {
            return self.call_foreign(keys, args);
        }
        self.call_written(keys, args)
    }

    /// A call of what another crate registered.
    #[inline(never)]
    fn call_foreign(&'static self, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
        match crate::value::with_lengths(self, args)? {
            Some(full) => self.call_written(keys, &full.iter().map(crate::OwnedValue::borrow).collect::<Vec<_>>()),
            None => self.call_written(keys, args),
        }
    }

    /// A call that may write to its arguments.
    #[inline(always)]
    fn call_written(&'static self, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
        self.check_written(args)?;
        let result = match self.run_next(keys, args) {
            Err(e) => return self.call_again(args, e),
            done => done,
        };
        // Under autograd the bump happens before outputs are saved; see `autograd::kernel`. What a composite writes is
        // counted by the operators that it is made of.
        if !matches!(self.body, Body::Composite(_)) && !keys.has(Key::AUTOGRAD) && !keys.has(Key::FORWARD) {
            self.bump_versions(args);
        }
        result
    }

    /// A call that failed for lack of an argument is made again with the schema's defaults for what was left out. (Kernels
    /// take the arguments as they are, so that a call that has them all does not pay for this. They take them before they
    /// do anything; a call that failed at something else may have written already, and is not made again.)
    #[cold]
    fn call_again(&'static self, args: &[Value<'_>], e: Error) -> Result<Outputs> {
        let full = crate::value::lacks_argument(self, &e).then(|| crate::value::with_defaults(self, args)).flatten();
        match full {
            Some(full) => self.call(&full.iter().map(crate::OwnedValue::borrow).collect::<Vec<_>>()),
            None => Err(crate::value::explain(self, args, e)),
        }
    }

    /// Runs the kernel of the highest key of `keys`: what a layer calls with `keys.below(its own key)`.
    ///
    /// # Errors
    /// As [`Op::call`]; when a kernel of the CPU would be given a tensor whose memory is not the CPU's.
    pub fn redispatch(&'static self, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
        self.check_memory(keys, args)?;
        self.run_next(keys, args)
    }

    /// Refuses tensors of other devices to kernels of the CPU, which would read and write at their addresses.
    fn check_memory(&self, keys: KeySet, args: &[Value<'_>]) -> Result<()> {
        if keys.backends() != KeySet::of(Key::CPU) {
            return Ok(());
        }
        let check = |t: &Tensor| crate::dispatch::check_same_device(t, crate::Device::CPU);
        args.iter().try_for_each(|a| match a {
            Value::Tensor(t) => check(t),
            Value::Tensors(ts) => ts.iter().try_for_each(check),
            Value::OptionalTensors(ts) => ts.iter().flatten().try_for_each(check),
            _ => Ok(()),
        })
    }

    /// As [`Op::redispatch`] for keys that are those of the arguments.
    #[inline(always)]
    pub(crate) fn run_next(&'static self, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
        let Some(key) = keys.highest() else { return Err(self.no_backend(args)) };
        let slot = self.table[key.index()].load(Ordering::Acquire);
        if slot.is_null() {
            return self.resolve_and_run(key, keys, args);
        }
        // SAFETY: slots hold null or a `KernelFn` stored by `resolve`.
        let kernel = unsafe { std::mem::transmute::<*mut (), KernelFn>(slot) };
        kernel(self, keys, args)
    }

    #[cold]
    #[inline(never)]
    fn resolve_and_run(&'static self, key: Key, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
        let kernel = self.resolve(key).ok_or_else(|| self.no_kernel(key))?;
        self.table[key.index()].store(kernel as *mut (), Ordering::Release);
        kernel(self, keys, args)
    }

    /// The kernel of `key`, if there is one: a registered one, the backend's or functionality's fall-back, or the
    /// built-in one.
    pub(crate) fn resolve(&'static self, key: Key) -> Option<KernelFn> {
        if self.has_override(key) {
            return Some(run_override);
        }
        // A test parses every built-in schema, and run-time ones are parsed when they are registered.
        if self.parsed().error.is_some() {
            return Some(no_schema);
        }
        if key.is_layout() {
            return crate::sparse::kernel(self, key);
        }
        if !key.is_backend() {
            return Some(crate::dispatch::functionality_kernel(key));
        }
        crate::dispatch::backend_kernel(self, key)
    }

    /// Whether a kernel is registered for `key`.
    pub(crate) fn has_override(&self, key: Key) -> bool {
        self.overrides.lock().iter().any(|o| o.key == key)
    }

    /// Whether a call on `x` would run the built-in CPU kernel and nothing else: no layer is between, and nobody has
    /// registered another. An operator made of this one may then leave out results that it drops.
    pub(crate) fn runs_built_in(&self, x: &Tensor) -> bool {
        let local = crate::keys::local();
        let keys = x.key_set().with(local.included).without(local.excluded);
        keys.functionality().is_empty() && keys.highest() == Some(Key::CPU) && !self.has_override(Key::CPU)
    }

    /// Where the kernel of `key` comes from, for listings. A layer above the backends has one of an operator's own only
    /// where somebody registered it.
    pub fn kernel_origin(&'static self, key: Key) -> Option<String> {
        if let Some(o) = self.overrides.lock().iter().rev().find(|o| o.key == key) {
            return Some(format!("registered at {}", o.location));
        }
        if key.is_layout() {
            crate::sparse::kernel(self, key)?;
        } else if key.is_backend() {
            crate::dispatch::backend_kernel(self, key)?;
        } else {
            return crate::dispatch::has_fallback(key).then(|| "fall-back".into());
        }
        let built_in = key == Key::CPU || key == Key::META || key.is_layout();
        Some(
            match self.body {
                _ if key.is_layout() && crate::sparse::own_kernel(self).is_some() => "built in",
                Body::Pointwise(_) if built_in => "pointwise",
                Body::Structured { .. } if key == Key::META => "from the shape rule",
                Body::Structured { .. } | Body::Kernels { .. } if built_in => "built in",
                Body::InPlace(..) if key == Key::CPU => "built in",
                Body::AnyBackend(_) => "any backend",
                Body::Composite(_) => "composite",
                Body::Explicit(_) => "composite with its own derivative",
                Body::Variant(Form::InPlace, _) | Body::InPlace(..) => "derived in-place form",
                Body::Variant(Form::Out, _) => "derived out= form",
                Body::Variant(Form::Overload, _) => "overload",
                Body::Pointwise(_) | Body::Structured { .. } | Body::Kernels { .. } | Body::Registered => "fall-back",
            }
            .into(),
        )
    }

    pub(crate) fn add_override(&self, key: Key, id: u64, kernel: &'static DynKernel, location: String) {
        self.overrides.lock().push(Override { key, id, kernel, location });
        self.forget(key);
    }

    pub(crate) fn remove_override(&self, id: u64) {
        let mut overrides = self.overrides.lock();
        if let Some(i) = overrides.iter().position(|o| o.id == id) {
            let key = overrides.remove(i).key;
            drop(overrides);
            self.forget(key);
        }
    }

    /// Makes the next call look `key` up again.
    pub(crate) fn forget(&self, key: Key) {
        self.table[key.index()].store(std::ptr::null_mut(), Ordering::Release);
    }

    /// Refuses writes that autograd could not follow although no tensor of the call requires a gradient: to an inference
    /// tensor outside inference mode, and to views made while recording was off of tensors that do.
    #[inline]
    fn check_written(&self, args: &[Value<'_>]) -> Result<()> {
        let mut mask = self.mutated();
        while mask != 0 {
            let i = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            match args.get(i) {
                Some(Value::Tensor(t)) => crate::autograd::check_untracked_write(t)?,
                Some(Value::Tensors(ts)) => ts.iter().try_for_each(crate::autograd::check_untracked_write)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Counts a write to every argument that the schema marks.
    pub(crate) fn bump_versions(&self, args: &[Value<'_>]) {
        let mut mask = self.mutated();
        while mask != 0 {
            let i = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            match args.get(i) {
                Some(Value::Tensor(t)) => t.bump_version(),
                Some(Value::Tensors(ts)) => ts.iter().for_each(Tensor::bump_version),
                _ => {}
            }
        }
    }

    #[cold]
    fn no_backend(&self, _args: &[Value<'_>]) -> Error {
        Error::new(
            ErrorKind::NotImplemented,
            format!("There were no tensor arguments to '{}' and no fallback is registered for it", self.full_name()),
        )
    }

    #[cold]
    fn no_kernel(&'static self, key: Key) -> Error {
        let have: Vec<String> = crate::dispatch::known_backends()
            .into_iter()
            .chain([Key::SPARSE, Key::SPARSE_CSR])
            .filter(|k| self.resolve(*k).is_some())
            .map(Key::name)
            .collect();
        Error::new(
            ErrorKind::NotImplemented,
            format!(
                "Could not run '{}::{}' with arguments from the '{}' backend. This could be because the operator doesn't \
                 exist for this backend. '{0}::{1}' is only available for these backends: [{}].",
                self.schema().namespace,
                self.full_name(),
                key.name(),
                have.join(", ")
            ),
        )
    }
}

/// The kernel of an operator whose schema cannot be read.
fn no_schema(op: &'static Op, _keys: KeySet, _args: &[Value<'_>]) -> Result<Outputs> {
    Err(op.parsed().error.clone().unwrap_or_else(|| Error::runtime("the schema can be read")))
}

/// Runs the newest kernel registered for the highest key.
fn run_override(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let key = keys.highest();
    let kernel = op.overrides.lock().iter().rev().find(|o| Some(o.key) == key).map(|o| o.kernel);
    match kernel {
        Some(kernel) => kernel(op, keys, args),
        // Unregistered between the table load and now: look again.
        None => op.run_next(keys, args),
    }
}

/// The keys of a call without tensors: the backend of its `device` argument, or the default one.
#[inline(never)]
fn factory_keys(args: &[Value<'_>]) -> KeySet {
    let device = args.iter().find_map(|a| match a {
        Value::Device(d) => Some(*d),
        _ => None,
    });
    KeySet::of(Key::backend(device.unwrap_or(Device::CPU).kind))
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.full_name())
    }
}
