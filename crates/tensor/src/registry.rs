//! The list of all operators, and registration at run time: operators, kernels and fall-backs of other crates.

use crate::keys::{Key, KeySet};
use crate::op::{Body, DynKernel, Form, Op};
use crate::schema::{Param, Schema};
use crate::value::{Outputs, Value};
use crate::{Error, Result};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Operators by namespace and full name.
static REGISTRY: LazyLock<RwLock<HashMap<String, &'static Op>>> = LazyLock::new(|| {
    let mut map = HashMap::new();
    for op in crate::ops::all() {
        map.insert(qualified(op), op);
    }
    RwLock::new(map)
});

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

fn qualified(op: &Op) -> String {
    match op.schema_text.find("::") {
        Some(_) => op.schema_text[..op.schema_text.find('(').unwrap_or(op.schema_text.len())].to_string(),
        None => format!("aten::{}", op.full_name()),
    }
}

/// The operator with this full name (`add.Tensor`, `mylib::frobnicate`), if there is one.
pub fn find(name: &str) -> Option<&'static Op> {
    let registry = REGISTRY.read();
    match name.contains("::") {
        true => registry.get(name).copied(),
        false => registry.get(&format!("aten::{name}")).copied(),
    }
}

/// Every overload of the operator `name` in `namespace`, ordered by overload name.
pub fn overloads(namespace: &str, name: &str) -> Vec<&'static Op> {
    let mut found: Vec<&'static Op> =
        REGISTRY.read().values().copied().filter(|o| o.name() == name && o.schema().namespace == namespace).collect();
    found.sort_by_key(|o| o.full_name());
    found
}

/// Every operator, ordered by name.
pub fn all() -> Vec<&'static Op> {
    let mut ops: Vec<&'static Op> = REGISTRY.read().values().copied().collect();
    ops.sort_by_key(|o| o.full_name());
    ops
}

/// The operator that `op` is another form of, and which form: derived ones say so, those written out are told by their
/// names and parameters (`add_` from `add`; `arange.start_out` from the `arange` with the same numbers).
pub fn form_of(op: &'static Op) -> Option<(Form, &'static Op)> {
    match op.body {
        Body::Variant(form, base) => return Some((form, base)),
        Body::InPlace(_, base) => return Some((Form::InPlace, base)),
        _ if !op.mutates() => return None,
        _ => {}
    }
    let (schema, name) = (op.schema(), op.name());
    let outs =
        schema.params.iter().rev().take_while(|p| p.keyword_only && p.alias.as_ref().is_some_and(|a| a.write)).count();
    let (form, base_name) = match (outs, name.strip_prefix("__i"), name.strip_suffix('_')) {
        (0, Some(rest), _) => (Form::InPlace, format!("__{rest}")),
        (0, None, Some(rest)) => (Form::InPlace, rest.to_string()),
        (0, ..) => return None,
        _ => (Form::Out, name.to_string()),
    };
    let given = &schema.params[..schema.params.len() - outs];
    let same = |base: &&'static Op| {
        let theirs = &base.schema().params;
        // What a factory is told about its result, the result itself tells.
        let known = |p: &&Param| !matches!(&*p.name, "dtype" | "layout" | "device" | "pin_memory");
        let by_name = |p: &Param| theirs.iter().any(|t| t.ty == p.ty && t.name == p.name);
        // The tensor itself has another name in some functions.
        let by_place = |(i, (p, t)): (usize, (&Param, &Param))| t.ty == p.ty && (t.name == p.name || i == 0);
        !base.mutates()
            && theirs.iter().filter(known).count() == given.len()
            && (given.iter().all(by_name) || given.iter().zip(theirs).enumerate().all(by_place))
    };
    overloads(&schema.namespace, &base_name).into_iter().find(same).map(|base| (form, base))
}

/// Something registered; dropping it takes it back and restores what was there before.
#[must_use = "dropping the handle undoes the registration"]
pub struct Registration {
    undo: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Registration {
    fn new(undo: impl FnOnce() + Send + Sync + 'static) -> Registration {
        Registration { undo: Some(Box::new(undo)) }
    }

    /// Keeps the registration for the life of the process.
    pub fn forever(mut self) {
        self.undo = None;
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(undo) = self.undo.take() {
            undo();
        }
    }
}

/// Registers `kernel` for the operator `name` and `key`; the newest registration wins.
///
/// The kernel's code stays in memory after the registration is dropped, because a call on another thread may still be
/// running it.
///
/// # Errors
/// When there is no such operator.
#[track_caller]
pub fn register_kernel(
    name: &str,
    key: Key,
    kernel: impl Fn(&'static Op, KeySet, &[Value<'_>]) -> Result<Outputs> + Send + Sync + 'static,
) -> Result<Registration> {
    let op =
        find(name).ok_or_else(|| Error::runtime(format!("there is no operator '{name}' to register a kernel for")))?;
    let id = NEXT_ID.fetch_add(1, Relaxed);
    let caller = std::panic::Location::caller();
    op.add_override(key, id, Box::leak(Box::new(kernel)), format!("{}:{}", caller.file(), caller.line()));
    forget_forms(op, key);
    Ok(Registration::new(move || {
        op.remove_override(id);
        forget_forms(op, key);
    }))
}

/// Registers `kernel` for every operator that has none of its own for `key`.
pub fn register_fallback(
    key: Key,
    kernel: impl Fn(&'static Op, KeySet, &[Value<'_>]) -> Result<Outputs> + Send + Sync + 'static,
) -> Registration {
    let id = NEXT_ID.fetch_add(1, Relaxed);
    let kernel: &'static DynKernel = Box::leak(Box::new(kernel));
    crate::dispatch::FALLBACKS.write().push((key, id, kernel));
    forget_everywhere(key);
    Registration::new(move || {
        crate::dispatch::FALLBACKS.write().retain(|(_, i, _)| *i != id);
        forget_everywhere(key);
    })
}

/// Forms derived from `op` may have been found to have no kernel, or another one.
fn forget_forms(op: &'static Op, key: Key) {
    for other in all() {
        if std::ptr::eq(other.functional(), op) {
            other.forget(key);
        }
    }
}

fn forget_everywhere(key: Key) {
    for op in all() {
        op.forget(key);
    }
}

/// A new operator of another crate: its schema (with a namespace), what it does, and its derivative.
pub struct OpBuilder {
    op: Op,
}

impl OpBuilder {
    /// An operator with `schema` such as `mylib::scale(Tensor self, float by) -> Tensor`.
    #[track_caller]
    pub fn new(schema: &str, body: Body) -> OpBuilder {
        let caller = std::panic::Location::caller();
        let mut op = Op::new(Box::leak(schema.to_owned().into_boxed_str()), body).foreign();
        op.location = (caller.file(), caller.line());
        OpBuilder { op }
    }
    /// Its documentation.
    #[must_use]
    pub fn doc(mut self, doc: &str) -> OpBuilder {
        self.op.doc = Box::leak(doc.to_owned().into_boxed_str());
        self
    }
    /// Its reverse-mode derivative; [`crate::backward!`] writes one.
    #[must_use]
    pub fn derivative(mut self, derivative: crate::autograd::Derivative) -> OpBuilder {
        self.op.derivative = derivative;
        self
    }
    /// Its forward-mode derivative, if better than the one made from the reverse one.
    #[must_use]
    pub fn forward(mut self, forward: crate::autograd::Forward) -> OpBuilder {
        self.op.forward = forward;
        self
    }
    /// Its examples for the derived tests.
    #[must_use]
    pub fn samples(mut self, samples: crate::samples::SamplesFn) -> OpBuilder {
        self.op.samples = Some(samples);
        self
    }

    /// Puts the operator into the registry for as long as the handle lives, and gives it.
    ///
    /// # Errors
    /// When the schema is not one, has no namespace or more than 64 parameters, or is taken.
    pub fn register(self) -> Result<(&'static Op, Registration)> {
        let schema = Schema::parse(self.op.schema_text)?;
        if schema.namespace == "aten" {
            return Err(Error::value("an operator of another crate needs a namespace of its own: 'mylib::name(...)'"));
        }
        let name = qualified(&self.op);
        let mut registry = REGISTRY.write();
        if registry.contains_key(&name) {
            return Err(Error::runtime(format!("the operator '{name}' is registered already")));
        }
        let op: &'static Op = Box::leak(Box::new(self.op));
        registry.insert(name.clone(), op);
        drop(registry);
        Ok((
            op,
            Registration::new(move || {
                REGISTRY.write().remove(&name);
            }),
        ))
    }
}

/// Everything known about an operator as text: schema, documentation, source, derivative, what fills each backend, and
/// what is registered for layers above.
pub fn describe(op: &'static Op) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let _ = writeln!(text, "{}", op.schema_text);
    for line in op.functional().doc.lines() {
        let _ = writeln!(text, "    {}", line.trim());
    }
    let mut line = |label: &str, what: &str| {
        let _ = writeln!(text, "  {label:<12} {what}");
    };
    let (file, number) = op.location;
    line("source", &format!("{file}:{number}"));
    line("backward", &op.functional().derivative.describe(op));
    for key in crate::dispatch::known_backends() {
        line(&key.name(), op.kernel_origin(key).as_deref().unwrap_or("none"));
    }
    for key in KeySet::ALL.functionality().iter() {
        if let Some(origin) = op.kernel_origin(key) {
            line(&key.name(), &origin);
        }
    }
    if let Body::Pointwise(p) = op.functional().body {
        let names: Vec<&str> = p.supported().map(|d| d.name()).collect();
        line("computed in", &names.join(", "));
    }
    text
}
