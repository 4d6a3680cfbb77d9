//! The architecture in one file: operators with schemas, one boxed calling convention, a dispatcher, ONE autograd kernel
//! for every operator, an engine, and tests made from the registry. Read top to bottom; the names are those of the real
//! crates. Left out on purpose: strides, dtypes, devices other than the CPU, in-place and `out=` forms.
//!
//! `cargo run --example mini` lists the operators and checks their first and second derivatives.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

type Result<T> = std::result::Result<T, String>;

// ---- tensor -------------------------------------------------------------------------------------

/// A handle: shared data, plus the node that computed it when gradients are being recorded.
#[derive(Clone)]
struct Tensor {
    data: Arc<Vec<f64>>,
    grad_fn: Option<Arc<Node>>,
}

impl Tensor {
    fn new(v: Vec<f64>) -> Tensor {
        Tensor { data: Arc::new(v), grad_fn: None }
    }
    /// A leaf whose gradient the engine will report.
    fn leaf(v: Vec<f64>) -> Tensor {
        Tensor { data: Arc::new(v), grad_fn: Some(Arc::new(Node::new(None, vec![]))) }
    }
}

// ---- operators ----------------------------------------------------------------------------------

/// An argument, borrowed: passing one costs 16 bytes on the stack and no reference count.
#[derive(Clone, Copy)]
enum Value<'a> {
    Tensor(&'a Tensor),
    Float(f64),
}

/// The same argument, owned by a node until backward.
enum Saved {
    Tensor(Tensor),
    Float(f64),
}

type Kernel = fn(&[Value]) -> Result<Tensor>;
/// Gradient with respect to each tensor argument, from (gradient, arguments, output).
type Backward = fn(&Tensor, &[Value], &Tensor) -> Result<Vec<Tensor>>;

/// Everything the system knows about one operator. Bindings, autograd, docs and tests read this.
struct Op {
    name: &'static str,
    doc: &'static str,
    source: &'static str,
    params: &'static [(&'static str, &'static str)],
    cpu: Kernel,
    backward: Option<Backward>,
    samples: fn() -> Vec<Vec<Saved>>,
}

// ---- dispatch -----------------------------------------------------------------------------------

/// One layer of a call: the number of its bit in a [`KeySet`].
#[derive(Clone, Copy, PartialEq)]
struct Key(u32);

impl Key {
    const CPU: Key = Key(0);
    const AUTOGRAD: Key = Key(1);
}

/// The layers that a call has still to pass; the highest runs first.
#[derive(Clone, Copy)]
struct KeySet(u64);

impl KeySet {
    fn of(key: Key) -> KeySet {
        KeySet(1 << key.0)
    }
    fn with(self, other: KeySet) -> KeySet {
        KeySet(self.0 | other.0)
    }
    fn without(self, other: KeySet) -> KeySet {
        KeySet(self.0 & !other.0)
    }
    fn below(self, key: Key) -> KeySet {
        KeySet(self.0 & ((1 << key.0) - 1))
    }
    fn highest(self) -> Key {
        Key(63 - self.0.leading_zeros())
    }
}

thread_local! {
    /// Layers that this thread skips.
    static EXCLUDED: Cell<KeySet> = const { Cell::new(KeySet(0)) };
}

/// Runs `f` without recording gradients.
fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    let before = EXCLUDED.replace(EXCLUDED.get().with(KeySet::of(Key::AUTOGRAD)));
    let result = f();
    EXCLUDED.set(before);
    result
}

impl Op {
    fn call(&'static self, args: &[Value]) -> Result<Tensor> {
        let mut keys = KeySet::of(Key::CPU);
        if args.iter().any(|a| matches!(a, Value::Tensor(t) if t.grad_fn.is_some())) {
            keys = keys.with(KeySet::of(Key::AUTOGRAD));
        }
        self.redispatch(keys.without(EXCLUDED.get()), args)
    }
    fn redispatch(&'static self, keys: KeySet, args: &[Value]) -> Result<Tensor> {
        match keys.highest() {
            Key::AUTOGRAD => autograd_kernel(self, keys, args),
            _ => (self.cpu)(args),
        }
    }
}

// ---- autograd: one kernel, one engine -----------------------------------------------------------

struct Node {
    op: Option<&'static Op>,
    args: Vec<Saved>,
    /// Set by the autograd kernel; kept without its grad_fn, or the node would own itself.
    output: std::sync::OnceLock<Arc<Vec<f64>>>,
    id: u64,
}

impl Node {
    fn new(op: Option<&'static Op>, args: Vec<Saved>) -> Node {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Node { op, args, output: Default::default(), id: NEXT.fetch_add(1, Relaxed) }
    }
}

fn autograd_kernel(op: &'static Op, keys: KeySet, args: &[Value]) -> Result<Tensor> {
    let mut out = op.redispatch(keys.below(Key::AUTOGRAD), args)?;
    if op.backward.is_some() {
        let saved = args.iter().map(|a| match *a {
            Value::Tensor(t) => Saved::Tensor(t.clone()),
            Value::Float(x) => Saved::Float(x),
        });
        let node = Node::new(Some(op), saved.collect());
        node.output.set(out.data.clone()).ok();
        out.grad_fn = Some(Arc::new(node));
    }
    Ok(out)
}

fn values(saved: &[Saved]) -> Vec<Value<'_>> {
    saved
        .iter()
        .map(|s| match s {
            Saved::Tensor(t) => Value::Tensor(t),
            Saved::Float(x) => Value::Float(*x),
        })
        .collect()
}

/// Gradients of `y` (seeded with `seed`) for every leaf, by leaf id. Newest node first: ids only grow,
/// so when a node is taken every later use of its output has already added its share.
fn backward(y: &Tensor, seed: Tensor) -> Result<HashMap<u64, Tensor>> {
    let mut leaves = HashMap::new();
    let mut todo: BTreeMap<u64, (Arc<Node>, Tensor)> = BTreeMap::new();
    if let Some(n) = &y.grad_fn {
        todo.insert(n.id, (n.clone(), seed));
    }
    while let Some((id, (node, g))) = todo.pop_last() {
        let Some(op) = node.op else {
            leaves.insert(id, g);
            continue;
        };
        let out = Tensor { data: node.output.get().unwrap().clone(), grad_fn: Some(node.clone()) };
        let args = values(&node.args);
        let grads = op.backward.unwrap()(&g, &args, &out)?;
        let inputs = args.iter().filter_map(|a| match a {
            Value::Tensor(t) => Some(t),
            _ => None,
        });
        for (t, g) in inputs.zip(grads) {
            let Some(n) = &t.grad_fn else { continue };
            let g = match todo.remove(&n.id) {
                Some((_, old)) => old.add(&g)?,
                None => g,
            };
            todo.insert(n.id, (n.clone(), g));
        }
    }
    Ok(leaves)
}

// ---- macros: a declaration becomes an Op, a method, and a test case ------------------------------

macro_rules! op { (
    $(#[doc = $doc:expr])* fn $name:ident($x:ident: &Tensor $(, $arg:ident: $kind:ident)*) $body:block
    backward |$g:ident, $y:ident| $grad:expr;
    samples $samples:expr;
) => {
    mod $name {
        use super::*;
        pub static OP: Op = Op {
            name: stringify!($name),
            doc: concat!($($doc, "\n"),*),
            source: concat!(file!(), ":", line!()),
            params: &[(stringify!($x), "Tensor") $(, (stringify!($arg), stringify!($kind)))*],
            cpu: |args| match *args { [Value::Tensor($x) $(, Value::$kind($arg))*] => $body, _ => Err("bad arguments".into()) },
            backward: Some(|$g, args, $y| match *args {
                [Value::Tensor($x) $(, Value::$kind($arg))*] => { let _ = ($x, $y $(, $arg)*); Ok($grad.to_vec()) }
                _ => unreachable!(),
            }),
            samples: || $samples,
        };
    }
    #[allow(dead_code)]
    impl Tensor { $(#[doc = $doc])* fn $name(&self $(, $arg: arg_type!($kind))*) -> Result<Tensor> {
        $name::OP.call(&[Value::Tensor(self) $(, Value::$kind($arg))*])
    } }
} }
macro_rules! arg_type {
    (Tensor) => {
        &Tensor
    };
    (Float) => {
        f64
    };
}

fn map(x: &Tensor, f: fn(f64) -> f64) -> Result<Tensor> {
    Ok(Tensor::new(x.data.iter().map(|&v| f(v)).collect()))
}
fn zip(x: &Tensor, y: &Tensor, f: fn(f64, f64) -> f64) -> Result<Tensor> {
    if x.data.len() != y.data.len() {
        return Err(format!("sizes {} and {} differ", x.data.len(), y.data.len()));
    }
    Ok(Tensor::new(x.data.iter().zip(y.data.iter()).map(|(&a, &b)| f(a, b)).collect()))
}
fn range(lo: f64, hi: f64) -> Saved {
    Saved::Tensor(Tensor::leaf((0..5).map(|i| lo + (hi - lo) * i as f64 / 4.0).collect()))
}

// ---- the operators: everything about each, in one place -----------------------------------------

op! {
    /// Sum of two tensors.
    fn add(x: &Tensor, other: Tensor) { zip(x, other, |a, b| a + b) }
    backward |g, y| [g.clone(), g.clone()];
    samples vec![vec![range(-1.0, 1.0), range(2.0, 3.0)]];
}

op! {
    /// Product of two tensors.
    fn mul(x: &Tensor, other: Tensor) { zip(x, other, |a, b| a * b) }
    backward |g, y| [g.mul(other)?, g.mul(x)?];
    samples vec![vec![range(-1.0, 1.0), range(2.0, 3.0)]];
}

op! {
    /// `alpha * x + beta`.
    fn affine(x: &Tensor, alpha: Float, beta: Float) {
        Ok(Tensor::new(x.data.iter().map(|v| alpha * v + beta).collect()))
    }
    backward |g, y| [g.affine(alpha, 0.0)?];
    samples vec![vec![range(-1.0, 1.0), Saved::Float(3.0), Saved::Float(0.5)]];
}

op! {
    /// Exponential of each element.
    fn exp(x: &Tensor) { map(x, f64::exp) }
    backward |g, y| [g.mul(y)?];
    samples vec![vec![range(-2.0, 2.0)]];
}

op! {
    /// Hyperbolic tangent of each element.
    fn tanh(x: &Tensor) { map(x, f64::tanh) }
    backward |g, y| [g.mul(&y.mul(y)?.affine(-1.0, 1.0)?)?];
    samples vec![vec![range(-2.0, 2.0)]];
}

/// Every operator. `main` fails if one is declared above and missing here.
static OPS: &[&Op] = &[&add::OP, &affine::OP, &exp::OP, &mul::OP, &tanh::OP];

// ---- tests: none of them names an operator ------------------------------------------------------

/// Central differences of `sum(f(args))` against the gradient of every tensor argument. An argument
/// the engine did not reach has gradient zero, and the differences must agree.
fn gradcheck(f: &dyn Fn(&[Value]) -> Result<Tensor>, args: &[Saved]) -> Result<()> {
    let y = f(&values(args))?;
    let grads = backward(&y, Tensor::new(vec![1.0; y.data.len()]))?;
    for (k, arg) in args.iter().enumerate() {
        let Saved::Tensor(t) = arg else { continue };
        let analytic = grads.get(&t.grad_fn.as_ref().unwrap().id);
        for i in 0..t.data.len() {
            let sum_at = |h: f64| -> Result<f64> {
                let mut moved = t.data.to_vec();
                moved[i] += h;
                let moved = Tensor::new(moved);
                let mut args = values(args);
                args[k] = Value::Tensor(&moved);
                Ok(f(&args)?.data.iter().sum())
            };
            let numeric = (sum_at(1e-6)? - sum_at(-1e-6)?) / 2e-6;
            let analytic = analytic.map_or(0.0, |g| g.data[i]);
            if (numeric - analytic).abs() > 1e-6 * (1.0 + numeric.abs()) {
                return Err(format!("argument {k}[{i}]: gradient {analytic}, differences say {numeric}"));
            }
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    assert_eq!(OPS.len(), include_str!("mini.rs").matches("\nop! {").count(), "OPS is incomplete");
    for op in OPS {
        let params: Vec<String> = op.params.iter().map(|(n, t)| format!("{t} {n}")).collect();
        println!("{}  {}({}) -> Tensor  # {}", op.source, op.name, params.join(", "), op.doc.trim());
        for sample in (op.samples)() {
            let forward = |args: &[Value]| op.call(args);
            // The gradient of argument 0, as a recorded function of the arguments.
            let gradient = |args: &[Value]| {
                let y = op.call(args)?;
                let ones = Tensor::new(vec![1.0; y.data.len()]);
                Ok(op.backward.unwrap()(&ones, args, &y)?.swap_remove(0))
            };
            gradcheck(&forward, &sample).map_err(|e| format!("{}: {e}", op.name))?;
            gradcheck(&gradient, &sample).map_err(|e| format!("{}, second order: {e}", op.name))?;
        }
    }
    let x = Tensor::leaf(vec![1.0, 2.0]);
    assert!(x.mul(&x)?.grad_fn.is_some());
    assert!(no_grad(|| x.mul(&x))?.grad_fn.is_none(), "recorded although nothing should be");
    println!("{} operators, first and second order", OPS.len());
    Ok(())
}
