//! Arguments and results of operators in boxed form: what every kernel takes and gives.

use crate::random::Generator;
use crate::{DType, Device, Error, Layout, MemoryFormat, Result, Scalar, Tensor};

/// One argument, borrowed for the duration of a call: passing it costs no reference count.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub enum Value<'a> {
    /// An optional argument that is not given.
    None,
    Tensor(&'a Tensor),
    Tensors(&'a [Tensor]),
    OptionalTensors(&'a [Option<Tensor>]),
    /// A number; where the schema says `Tensor`, a number that takes part in promotion as a scalar.
    Scalar(Scalar),
    Scalars(&'a [Scalar]),
    Int(i64),
    Ints(&'a [i64]),
    Float(f64),
    Floats(&'a [f64]),
    Bool(bool),
    Bools(&'a [bool]),
    DType(DType),
    Device(Device),
    Layout(Layout),
    MemoryFormat(MemoryFormat),
    Str(&'a str),
    Generator(&'a Generator),
}

/// An argument that owns what it names: kept by autograd nodes, samples and bindings.
#[derive(Clone)]
#[allow(missing_docs)]
pub enum OwnedValue {
    None,
    Tensor(Tensor),
    Tensors(Vec<Tensor>),
    OptionalTensors(Vec<Option<Tensor>>),
    Scalar(Scalar),
    Scalars(Vec<Scalar>),
    Int(i64),
    Ints(Vec<i64>),
    Float(f64),
    Floats(Vec<f64>),
    Bool(bool),
    Bools(Vec<bool>),
    DType(DType),
    Device(Device),
    Layout(Layout),
    MemoryFormat(MemoryFormat),
    Str(String),
    Generator(Generator),
}

macro_rules! owned_and_borrowed {
    (copy: $($copy:ident)*; slice: $($slice:ident)*; reference: $($reference:ident)*) => {
        impl OwnedValue {
            /// The same value, borrowed.
            pub fn borrow(&self) -> Value<'_> {
                match self {
                    OwnedValue::None => Value::None,
                    $(OwnedValue::$copy(x) => Value::$copy(*x),)*
                    $(OwnedValue::$slice(x) => Value::$slice(x),)*
                    $(OwnedValue::$reference(x) => Value::$reference(x),)*
                }
            }
        }
        impl Value<'_> {
            /// The same value, owned: tensors gain a handle, lists are copied.
            pub fn to_owned(&self) -> OwnedValue {
                match *self {
                    Value::None => OwnedValue::None,
                    $(Value::$copy(x) => OwnedValue::$copy(x),)*
                    $(Value::$slice(x) => OwnedValue::$slice(x.into()),)*
                    $(Value::$reference(x) => OwnedValue::$reference(x.clone()),)*
                }
            }
        }
    };
}
owned_and_borrowed! {
    copy: Scalar Int Float Bool DType Device Layout MemoryFormat;
    slice: Tensors OptionalTensors Scalars Ints Floats Bools Str;
    reference: Tensor Generator
}

/// A tensor or a number: what stands on either side of an arithmetic operator.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A number, which takes part in promotion with its category only.
    Scalar(Scalar),
}

/// What an arithmetic method takes beside `self`: a tensor by reference, or a number.
pub trait IntoOperand {
    /// As an operand.
    fn operand(&self) -> Operand<'_>;
}
impl IntoOperand for &Tensor {
    #[inline(always)]
    fn operand(&self) -> Operand<'_> {
        Operand::Tensor(self)
    }
}
impl IntoOperand for Operand<'_> {
    #[inline(always)]
    fn operand(&self) -> Operand<'_> {
        *self
    }
}
impl IntoOperand for &OwnedOperand {
    #[inline(always)]
    fn operand(&self) -> Operand<'_> {
        match self {
            OwnedOperand::Tensor(t) => Operand::Tensor(t),
            OwnedOperand::Scalar(s) => Operand::Scalar(*s),
        }
    }
}
macro_rules! number_operand {
    ($($t:ty)*) => { $(
        impl IntoOperand for $t {
            #[inline(always)]
            fn operand(&self) -> Operand<'_> {
                Operand::Scalar(Scalar::from(*self))
            }
        }
    )* };
}
number_operand! { Scalar bool u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 crate::Complex32 crate::Complex64 }

/// An [`Operand`] that owns its tensor: what a derivative formula gets for an argument that may be a number.
#[derive(Clone)]
pub enum OwnedOperand {
    /// A tensor.
    Tensor(Tensor),
    /// A number.
    Scalar(Scalar),
}

impl OwnedOperand {
    /// The complex conjugate.
    ///
    /// # Errors
    /// As [`Tensor::conj`].
    pub fn conj(&self) -> Result<OwnedOperand> {
        Ok(match self {
            OwnedOperand::Tensor(t) => OwnedOperand::Tensor(t.conj()?),
            OwnedOperand::Scalar(s) => OwnedOperand::Scalar(s.conj()),
        })
    }

    /// As a tensor: a number becomes a 0-d one of the dtype and device of `like`.
    ///
    /// # Errors
    /// When it cannot be allocated.
    pub fn to_tensor(&self, like: &Tensor) -> Result<Tensor> {
        match self {
            OwnedOperand::Tensor(t) => Ok(t.clone()),
            OwnedOperand::Scalar(s) => Tensor::full(&[], *s, (like.dtype(), like.device())),
        }
    }
}

macro_rules! value_from {
    ($($t:ty => |$x:ident| $e:expr;)*) => { $(
        impl<'a> From<$t> for Value<'a> {
            #[inline(always)]
            fn from($x: $t) -> Value<'a> { $e }
        }
    )* };
}
value_from! {
    &'a Tensor => |x| Value::Tensor(x);
    Option<&'a Tensor> => |x| x.map_or(Value::None, Value::Tensor);
    &'a Option<Tensor> => |x| x.as_ref().map_or(Value::None, Value::Tensor);
    &'a [Tensor] => |x| Value::Tensors(x);
    &'a Vec<Tensor> => |x| Value::Tensors(x);
    &'a [Option<Tensor>] => |x| Value::OptionalTensors(x);
    Operand<'a> => |x| match x { Operand::Tensor(t) => Value::Tensor(t), Operand::Scalar(s) => Value::Scalar(s) };
    Scalar => |x| Value::Scalar(x);
    Option<Scalar> => |x| x.map_or(Value::None, Value::Scalar);
    i64 => |x| Value::Int(x);
    Option<i64> => |x| x.map_or(Value::None, Value::Int);
    &'a [i64] => |x| Value::Ints(x);
    &'a crate::Dims => |x| Value::Ints(x);
    Option<&'a [i64]> => |x| x.map_or(Value::None, Value::Ints);
    f64 => |x| Value::Float(x);
    Option<f64> => |x| x.map_or(Value::None, Value::Float);
    &'a [f64] => |x| Value::Floats(x);
    Option<&'a [f64]> => |x| x.map_or(Value::None, Value::Floats);
    &'a [Scalar] => |x| Value::Scalars(x);
    bool => |x| Value::Bool(x);
    Option<bool> => |x| x.map_or(Value::None, Value::Bool);
    &'a [bool] => |x| Value::Bools(x);
    DType => |x| Value::DType(x);
    Option<DType> => |x| x.map_or(Value::None, Value::DType);
    Device => |x| Value::Device(x);
    Option<Device> => |x| x.map_or(Value::None, Value::Device);
    Layout => |x| Value::Layout(x);
    MemoryFormat => |x| Value::MemoryFormat(x);
    Option<MemoryFormat> => |x| x.map_or(Value::None, Value::MemoryFormat);
    &'a str => |x| Value::Str(x);
    Option<&'a str> => |x| x.map_or(Value::None, Value::Str);
    &'a Generator => |x| Value::Generator(x);
    Option<&'a Generator> => |x| x.map_or(Value::None, Value::Generator);
}

impl Value<'_> {
    /// What sort of argument it is, for messages.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Tensor(_) => "Tensor",
            Value::Tensors(_) | Value::OptionalTensors(_) => "list of Tensors",
            Value::Scalar(_) => "Number",
            Value::Scalars(_) => "list of Numbers",
            Value::Int(_) => "int",
            Value::Ints(_) => "list of ints",
            Value::Float(_) => "float",
            Value::Floats(_) => "list of floats",
            Value::Bool(_) => "bool",
            Value::Bools(_) => "list of bools",
            Value::DType(_) => "dtype",
            Value::Device(_) => "device",
            Value::Layout(_) => "layout",
            Value::MemoryFormat(_) => "memory_format",
            Value::Str(_) => "str",
            Value::Generator(_) => "Generator",
        }
    }
}

/// Takes a typed argument out of a [`Value`]; implemented for every type that a kernel's parameter can have.
pub trait FromValue<'a>: Sized {
    /// The typed argument, or what was expected instead.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Type`] when the value is of another sort.
    fn from_value(v: Value<'a>) -> Result<Self>;
}

/// How an error begins that does not say yet which argument it is about.
const UNNAMED: &str = "argument ";
/// What it says of one that is not there.
const MISSING: &str = "is missing: the operator is ";

#[cold]
pub(crate) fn expected(what: &str, got: Value<'_>) -> Error {
    Error::type_(format!("{UNNAMED}must be {what}, not {}", got.kind_name()))
}

/// Whether an error is [`expected`]'s or [`missing`]'s about an argument that is not there: of this operator or, if that
/// writes nothing, of one that it is made of.
#[cold]
pub(crate) fn lacks_argument(op: &'static crate::Op, e: &Error) -> bool {
    let said = e.message();
    let own = said.strip_prefix(op.name()).and_then(|rest| rest.strip_prefix("(): ")).unwrap_or(said);
    let absent = said.ends_with(", not None") || said.contains(MISSING);
    e.kind() == crate::ErrorKind::Type && absent && (own.starts_with(UNNAMED) || !op.mutates())
}

macro_rules! from_value {
    ($($t:ty, $what:literal, $($pattern:pat => $e:expr),+;)*) => { $(
        impl<'a> FromValue<'a> for $t {
            #[inline(always)]
            fn from_value(v: Value<'a>) -> Result<Self> {
                match v { $($pattern => Ok($e),)+ v => Err(expected($what, v)) }
            }
        }
        impl<'a> FromValue<'a> for Option<$t> {
            #[inline(always)]
            fn from_value(v: Value<'a>) -> Result<Self> {
                match v { Value::None => Ok(None), $($pattern => Ok(Some($e)),)+ v => Err(expected($what, v)) }
            }
        }
    )* };
}
from_value! {
    &'a Tensor, "Tensor", Value::Tensor(t) => t;
    &'a [Tensor], "list of Tensors", Value::Tensors(t) => t;
    &'a [Option<Tensor>], "list of optional Tensors", Value::OptionalTensors(t) => t;
    Scalar, "Number", Value::Scalar(s) => s, Value::Int(i) => Scalar::Int(i), Value::Float(f) => Scalar::Float(f),
        Value::Bool(b) => Scalar::Bool(b);
    Operand<'a>, "Tensor or Number", Value::Tensor(t) => Operand::Tensor(t), Value::Scalar(s) => Operand::Scalar(s),
        Value::Int(i) => Operand::Scalar(Scalar::Int(i)), Value::Float(f) => Operand::Scalar(Scalar::Float(f)),
        Value::Bool(b) => Operand::Scalar(Scalar::Bool(b));
    &'a [Scalar], "list of Numbers", Value::Scalars(s) => s;
    i64, "int", Value::Int(i) => i, Value::Scalar(Scalar::Int(i)) => i;
    &'a [i64], "list of ints", Value::Ints(i) => i;
    f64, "float", Value::Float(f) => f, Value::Int(i) => i as f64, Value::Scalar(s) => s.to_f64();
    &'a [f64], "list of floats", Value::Floats(f) => f;
    bool, "bool", Value::Bool(b) => b, Value::Scalar(Scalar::Bool(b)) => b;
    &'a [bool], "list of bools", Value::Bools(b) => b;
    DType, "dtype", Value::DType(d) => d;
    Device, "device", Value::Device(d) => d;
    Layout, "layout", Value::Layout(l) => l;
    MemoryFormat, "memory_format", Value::MemoryFormat(m) => m;
    &'a str, "str", Value::Str(s) => s;
    &'a Generator, "Generator", Value::Generator(g) => g;
}

/// Lists of a fixed length; of numbers one, alone or in a list, stands for all.
macro_rules! fixed_lists {
    ($($t:ty, $what:literal, $list:ident $(, one: $one:ident)?;)*) => { $(
        impl<'a, const N: usize> FromValue<'a> for [$t; N] {
            #[inline(always)]
            fn from_value(v: Value<'a>) -> Result<Self> {
                match v {
                    $(Value::$one(x) => Ok([x; N]), Value::$list(&[x]) => Ok([x; N]),)?
                    Value::$list(given) => given.try_into().map_err(|_| wrong_length(given.len(), N)),
                    v => Err(expected($what, v)),
                }
            }
        }
    )* };
}
fixed_lists! {
    i64, "list of ints", Ints, one: Int;
    f64, "list of floats", Floats, one: Float;
    bool, "list of bools", Bools;
}

/// That a list is not as long as it must be.
#[cold]
fn wrong_length(given: usize, wanted: usize) -> Error {
    Error::runtime(format!("Tried to convert a List with {given} elements to a fixed-size array of size {wanted}"))
}

/// What an operator gives back, in the order of its schema. A result that was not asked for is `None`.
#[derive(Clone)]
pub enum Outputs {
    /// Nothing.
    None,
    /// One tensor.
    One(Tensor),
    /// Several tensors, or a list of them.
    Many(Vec<Option<Tensor>>),
    /// A number that left the device.
    Scalar(Scalar),
}

impl Outputs {
    /// The one tensor.
    ///
    /// # Errors
    /// When the operator gave something else.
    #[inline]
    pub fn one(self) -> Result<Tensor> {
        match self {
            Outputs::One(t) => Ok(t),
            _ => Err(Error::runtime("the operator did not return one tensor")),
        }
    }

    /// All tensors; absent ones are an error.
    ///
    /// # Errors
    /// When one is absent.
    pub fn list(self) -> Result<Vec<Tensor>> {
        match self {
            Outputs::One(t) => Ok(vec![t]),
            Outputs::Many(v) => {
                v.into_iter().map(|t| t.ok_or_else(|| Error::runtime("the operator left a result undefined"))).collect()
            }
            _ => Ok(vec![]),
        }
    }

    /// Exactly `N` tensors.
    ///
    /// # Errors
    /// When there are not so many.
    pub fn array<const N: usize>(self) -> Result<[Tensor; N]> {
        self.list()?.try_into().map_err(|_| Error::runtime(format!("the operator did not return {N} tensors")))
    }

    /// The number.
    ///
    /// # Errors
    /// When the operator gave something else.
    pub fn scalar(self) -> Result<Scalar> {
        match self {
            Outputs::Scalar(s) => Ok(s),
            _ => Err(Error::runtime("the operator did not return a number")),
        }
    }

    /// How many tensors.
    pub fn len(&self) -> usize {
        match self {
            Outputs::None | Outputs::Scalar(_) => 0,
            Outputs::One(_) => 1,
            Outputs::Many(v) => v.len(),
        }
    }

    /// Whether there is no tensor.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tensor `i`, if it is there.
    #[inline]
    pub fn get(&self, i: usize) -> Option<&Tensor> {
        match self {
            Outputs::One(t) if i == 0 => Some(t),
            Outputs::Many(v) => v.get(i)?.as_ref(),
            _ => None,
        }
    }
}

impl From<()> for Outputs {
    fn from(_: ()) -> Outputs {
        Outputs::None
    }
}
impl From<Tensor> for Outputs {
    #[inline(always)]
    fn from(t: Tensor) -> Outputs {
        Outputs::One(t)
    }
}
impl From<Vec<Tensor>> for Outputs {
    fn from(v: Vec<Tensor>) -> Outputs {
        Outputs::Many(v.into_iter().map(Some).collect())
    }
}
impl From<Vec<Option<Tensor>>> for Outputs {
    fn from(v: Vec<Option<Tensor>>) -> Outputs {
        Outputs::Many(v)
    }
}
impl From<Scalar> for Outputs {
    fn from(s: Scalar) -> Outputs {
        Outputs::Scalar(s)
    }
}
impl From<bool> for Outputs {
    fn from(b: bool) -> Outputs {
        Outputs::Scalar(Scalar::Bool(b))
    }
}
impl From<(Tensor, Tensor)> for Outputs {
    fn from((a, b): (Tensor, Tensor)) -> Outputs {
        Outputs::Many(vec![Some(a), Some(b)])
    }
}
impl From<(Tensor, Tensor, Tensor)> for Outputs {
    fn from((a, b, c): (Tensor, Tensor, Tensor)) -> Outputs {
        Outputs::Many(vec![Some(a), Some(b), Some(c)])
    }
}
impl<const N: usize> From<[Option<Tensor>; N]> for Outputs {
    fn from(v: [Option<Tensor>; N]) -> Outputs {
        Outputs::Many(v.into())
    }
}

/// Takes argument `i` of a call out of its box, naming the operator and argument if it is of the wrong sort.
///
/// # Errors
/// [`crate::ErrorKind::Type`].
#[inline(always)]
pub fn take<'a, T: FromValue<'a>>(op: &'static crate::Op, args: &[Value<'a>], i: usize) -> Result<T> {
    let v = args.get(i).copied().unwrap_or(Value::None);
    T::from_value(v).map_err(|e| wrong_argument(op, i, e))
}

/// What [`kernel!`](crate::kernel), [`plan!`](crate::plan) and [`run!`](crate::run) bind to a parameter: one argument, or
/// several that belong together.
pub trait Bind<'a>: Sized {
    /// Takes what stands at `next`, which moves on. The operator, where it is at hand, is named in errors.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Type`].
    fn bind(op: Option<&'static crate::Op>, args: &[Value<'a>], next: &mut usize) -> Result<Self>;
}

impl<'a, T: FromValue<'a>> Bind<'a> for T {
    #[inline(always)]
    fn bind(op: Option<&'static crate::Op>, args: &[Value<'a>], next: &mut usize) -> Result<T> {
        let i = *next;
        *next += 1;
        match op {
            Some(op) => {
                // An optional type serves parameters that are not optional, too.
                if matches!(args.get(i), None | Some(Value::None)) {
                    check_given(op, args, i)?;
                }
                take(op, args, i)
            }
            None => T::from_value(args.get(i).copied().unwrap_or(Value::None)),
        }
    }
}

/// The four options of a factory.
impl<'a> Bind<'a> for crate::TensorOptions {
    fn bind(op: Option<&'static crate::Op>, args: &[Value<'a>], next: &mut usize) -> Result<Self> {
        let dtype = Bind::bind(op, args, next)?;
        crate::ops::create::check_layout(Bind::bind(op, args, next)?)?;
        let device = Bind::bind(op, args, next)?;
        let _pin_memory: Option<bool> = Bind::bind(op, args, next)?;
        Ok(crate::TensorOptions { dtype, device })
    }
}

#[cold]
pub(crate) fn wrong_argument(op: &'static crate::Op, i: usize, e: Error) -> Error {
    if e.kind() != crate::ErrorKind::Type {
        return e;
    }
    let name = op.schema().params.get(i).map_or("?", |p| &p.name);
    let rest = e.message().strip_prefix(UNNAMED).unwrap_or(e.message());
    Error::type_(format!("{}(): argument '{name}' (position {}) {rest}", op.name(), i + 1))
}

/// That a call ends before an argument that it needs.
#[cold]
pub(crate) fn missing(op: &'static crate::Op, i: usize) -> Error {
    wrong_argument(op, i, Error::type_(format!("{UNNAMED}{MISSING}{}", op.schema())))
}

/// That argument `i`, which is not there or `None`, may be left out.
fn check_given(op: &'static crate::Op, args: &[Value<'_>], i: usize) -> Result<()> {
    match op.required() >> i & 1 == 1 {
        true => Err(not_given(op, args, i)),
        false => Ok(()),
    }
}

#[cold]
fn not_given(op: &'static crate::Op, args: &[Value<'_>], i: usize) -> Error {
    match op.schema().params.get(i) {
        Some(p) if i < args.len() => wrong_argument(op, i, expected(&p.ty.in_words(), Value::None)),
        _ => missing(op, i),
    }
}

/// Checks that every argument is of the schema's type: for a kernel that passes its arguments on as they are.
///
/// # Errors
/// [`crate::ErrorKind::Type`], naming the operator and the first argument that is not.
pub(crate) fn check_sorts(op: &'static crate::Op, args: &[Value<'_>]) -> Result<()> {
    for (i, p) in op.schema().params.iter().enumerate() {
        match args.get(i) {
            None | Some(Value::None) => check_given(op, args, i)?,
            Some(v) if p.ty.takes(v) => {}
            Some(v) => return Err(wrong_argument(op, i, expected(&p.ty.in_words(), *v))),
        }
    }
    Ok(())
}

/// The arguments of an operator of another crate, whose kernels may rely on what its schema says about the lengths of lists:
/// a single number where a list of them is due is made one, if need be.
///
/// # Errors
/// When a list is neither as long as the schema says, nor (of numbers) of one element, nor as long as the default.
pub(crate) fn with_lengths(op: &'static crate::Op, args: &[Value<'_>]) -> Result<Option<Vec<OwnedValue>>> {
    let mut full = None;
    for (i, (p, v)) in op.schema().params.iter().zip(args).enumerate() {
        let Some(Some(n)) = p.ty.list else { continue };
        let given = match v {
            Value::Int(_) | Value::Float(_) => 1,
            Value::Ints(list) => list.len(),
            Value::Floats(list) => list.len(),
            Value::Bools(list) => list.len(),
            Value::Scalars(list) => list.len(),
            Value::Tensors(list) => list.len(),
            Value::OptionalTensors(list) => list.len(),
            _ => continue,
        };
        let all = match *v {
            _ if given == n && !matches!(v, Value::Int(_) | Value::Float(_)) => continue,
            Value::Int(x) if p.ty.base == crate::schema::Base::Float => OwnedValue::Floats(vec![x as f64; n]),
            Value::Int(x) | Value::Ints(&[x]) => OwnedValue::Ints(vec![x; n]),
            Value::Float(x) | Value::Floats(&[x]) => OwnedValue::Floats(vec![x; n]),
            _ if matches!(&p.default, Some(crate::schema::Default::Ints(list)) if list.len() == given) => continue,
            _ => return Err(wrong_length(given, n)),
        };
        full.get_or_insert_with(|| args.iter().map(Value::to_owned).collect::<Vec<_>>())[i] = all;
    }
    Ok(full)
}

/// The arguments with the schema's defaults where they end or are `None`; `None` if there is nothing to put in.
#[cold]
pub(crate) fn with_defaults(op: &'static crate::Op, args: &[Value<'_>]) -> Option<Vec<OwnedValue>> {
    let params = &op.schema().params;
    let (mut full, mut changed) = (Vec::new(), args.len() < params.len());
    if args.len() > params.len() {
        return None;
    }
    for (i, p) in params.iter().enumerate() {
        let given = args.get(i).filter(|v| !matches!(v, Value::None));
        let value = match given {
            Some(v) => v.to_owned(),
            None => {
                check_given(op, args, i).ok()?;
                p.default_value().unwrap_or(OwnedValue::None)
            }
        };
        changed |= given.is_none() && !matches!(value, OwnedValue::None);
        full.push(value);
    }
    changed.then_some(full)
}

/// Why a call failed: if an argument is not of the schema's type that is it, whatever the kernel stumbled over; the
/// operator that was called is named, not one that it is made of. Other errors are passed on.
#[cold]
pub(crate) fn explain(op: &'static crate::Op, args: &[Value<'_>], e: Error) -> Error {
    match check_sorts(op, args) {
        Err(sort) => sort,
        Ok(()) if e.kind() == crate::ErrorKind::Type && e.message().starts_with(UNNAMED) => {
            e.context(format!("{}()", op.name()))
        }
        Ok(()) => e,
    }
}

/// What a method may return.
pub trait FromOutputs: Sized {
    /// Takes it out of an operator's results.
    ///
    /// # Errors
    /// When the operator gave something else.
    fn from_outputs(o: Outputs) -> Result<Self>;
}
impl FromOutputs for Tensor {
    #[inline(always)]
    fn from_outputs(o: Outputs) -> Result<Tensor> {
        o.one()
    }
}
impl FromOutputs for Vec<Tensor> {
    fn from_outputs(o: Outputs) -> Result<Self> {
        o.list()
    }
}
impl FromOutputs for Vec<Option<Tensor>> {
    fn from_outputs(o: Outputs) -> Result<Self> {
        Ok(match o {
            Outputs::One(t) => vec![Some(t)],
            Outputs::Many(v) => v,
            _ => vec![],
        })
    }
}
impl FromOutputs for (Tensor, Tensor) {
    fn from_outputs(o: Outputs) -> Result<Self> {
        o.array::<2>().map(|[a, b]| (a, b))
    }
}
impl FromOutputs for (Tensor, Tensor, Tensor) {
    fn from_outputs(o: Outputs) -> Result<Self> {
        o.array::<3>().map(|[a, b, c]| (a, b, c))
    }
}
impl FromOutputs for Scalar {
    fn from_outputs(o: Outputs) -> Result<Self> {
        o.scalar()
    }
}
impl FromOutputs for bool {
    fn from_outputs(o: Outputs) -> Result<Self> {
        o.scalar().map(Scalar::to_bool)
    }
}
impl FromOutputs for () {
    fn from_outputs(_: Outputs) -> Result<Self> {
        Ok(())
    }
}

/// What a shape rule may return.
pub trait IntoPlan {
    /// As a list.
    fn into_plan(self) -> crate::Plan;
}
impl IntoPlan for crate::TensorSpec {
    fn into_plan(self) -> crate::Plan {
        crate::Plan::from_iter([self])
    }
}
impl<const N: usize> IntoPlan for [crate::TensorSpec; N] {
    fn into_plan(self) -> crate::Plan {
        self.into_iter().collect()
    }
}
impl IntoPlan for Vec<crate::TensorSpec> {
    fn into_plan(self) -> crate::Plan {
        self.into()
    }
}
