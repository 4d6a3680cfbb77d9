//! From Python arguments to an operator's: every schema is a signature, and one parser serves them all.
//!
//! The rules are those of PyTorch's argument parser: numbers stand in for tensors in arithmetic, 0-d tensors for
//! numbers, an integer expands to a fixed-length list, a list of sizes may be spread over the positional arguments, and
//! `input`, `axis`, `keepdims`, ... are other names of parameters. Where PyTorch goes by the order in which overloads are
//! written, here the one that needs the fewest conversions wins.

use crate::convert::{check, convert, int_in_list, is_int_in_list, overflow};
use crate::explain::{explain, is_none, list_type_name, no_integer, parse_old_order, type_text};
use crate::number::type_name;
use crate::object::is_tensor;
use flambeau::op::Op;
use flambeau::schema::{Base, Param, Type};
use flambeau::{DType, Device, Dims, OwnedValue, Tensor, Value};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyString;
use smallvec::SmallVec;

/// A call as it arrives: borrowed objects.
pub struct Call<'a> {
    /// The interpreter.
    pub py: Python<'a>,
    /// The tensor whose method is called; null for a function.
    pub this: *mut PyObject,
    /// The positional arguments.
    pub args: &'a [*mut PyObject],
    /// The arguments by name.
    pub named: SmallVec<[(*mut PyObject, *mut PyObject); 4]>,
}

impl<'a> Call<'a> {
    /// The call that the interpreter's fast convention describes.
    ///
    /// # Safety
    /// `args` points to `count` positional arguments and then one per name in `names` (a tuple, or null).
    #[inline(always)]
    pub unsafe fn new(
        py: Python<'a>,
        this: *mut PyObject,
        args: *const *mut PyObject,
        count: usize,
        names: *mut PyObject,
    ) -> Call<'a> {
        let mut named = SmallVec::new();
        // SAFETY: as the caller says. (`args` may be null when there are none.)
        unsafe {
            if !names.is_null() {
                for i in 0..ffi::PyTuple_Size(names) {
                    named.push((ffi::PyTuple_GetItem(names, i), *args.offset(count as isize + i)));
                }
            }
            let args = if count == 0 { &[] } else { std::slice::from_raw_parts(args, count) };
            Call { py, this, args, named }
        }
    }

    /// The argument called `name`.
    pub fn named(&self, name: &str) -> Option<*mut PyObject> {
        self.named.iter().find(|(n, _)| text(*n) == name).map(|(_, v)| *v)
    }
}

/// The text of a Python string.
pub fn text(object: *mut PyObject) -> String {
    Python::attach(|py| {
        // SAFETY: a live object.
        let object = unsafe { Bound::from_borrowed_ptr(py, object) };
        object.cast::<PyString>().map_or_else(|_| String::new(), |s| s.to_string_lossy().into_owned())
    })
}

/// The items of a list or tuple, borrowed.
pub struct Items(pub SmallVec<[*mut PyObject; 8]>);

impl Items {
    /// Of a list, a tuple, or a subclass of either.
    #[inline]
    pub fn of(object: *mut PyObject) -> Option<Items> {
        // SAFETY: a live object; items are borrowed from it.
        unsafe {
            let (count, get): (_, unsafe fn(*mut PyObject, isize) -> *mut PyObject) =
                match (ffi::PyTuple_Check(object) != 0, ffi::PyList_Check(object) != 0) {
                    (true, _) => (ffi::PyTuple_Size(object), |o, i| ffi::PyTuple_GetItem(o, i)),
                    (_, true) => (ffi::PyList_Size(object), |o, i| ffi::PyList_GetItem(o, i)),
                    _ => return None,
                };
            Some(Items((0..count).map(|i| get(object, i)).collect()))
        }
    }
    /// The items.
    pub fn iter(&self) -> std::slice::Iter<'_, *mut PyObject> {
        self.0.iter()
    }
}

/// A parameter of a schema, ready for parsing.
pub struct Parameter {
    /// Its name as an interned Python string, which is never freed.
    name: *mut PyObject,
    /// Its name.
    pub text: String,
    pub ty: Type,
    pub default: Option<OwnedValue>,
    pub keyword_only: bool,
    /// Where a result is written.
    pub out: bool,
    /// Numbers stand in for tensors.
    pub numbers: bool,
}

// SAFETY: the only raw pointer is to an immortal string that is compared and not followed.
unsafe impl Send for Parameter {}
// SAFETY: as above.
unsafe impl Sync for Parameter {}

/// One schema as a signature.
pub struct Overload {
    /// The operator.
    pub op: &'static Op,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    positional: usize,
    outs: Vec<usize>,
    /// Where `self` stands, if it is a tensor.
    pub this: Option<usize>,
    /// It makes tensors from nothing: it takes `requires_grad` too.
    factory: bool,
    fills_out: bool,
    spread: Option<usize>,
    /// Which parameters it writes.
    written: Vec<usize>,
    /// Another overload takes numbers where this one wants them.
    pub hidden: bool,
}

/// Where an argument comes from.
#[derive(Clone, Copy)]
pub enum Slot {
    /// Not given.
    Default,
    /// Given.
    Object(*mut PyObject),
    /// All positional arguments from this one on.
    Spread(usize),
}

/// The place of each parameter's argument.
pub type Slots = SmallVec<[Slot; 12]>;

/// A converted argument. Lists of integers, which every view has, need no allocation.
pub enum Converted {
    /// The schema's default.
    Default(&'static OwnedValue),
    /// Nothing given.
    None,
    /// A tensor.
    Tensor(Tensor),
    /// Integers.
    Ints(Dims),
    /// Anything else.
    Other(OwnedValue),
    /// A generator, kept by its object.
    Generator(flambeau::Generator),
}

impl Converted {
    /// As an operator takes it.
    #[inline(always)]
    pub fn borrow(&self) -> Value<'_> {
        match self {
            Converted::Default(v) => v.borrow(),
            Converted::None => Value::None,
            Converted::Tensor(t) => Value::Tensor(t),
            Converted::Ints(i) => Value::Ints(i),
            Converted::Other(v) => v.borrow(),
            Converted::Generator(g) => Value::Generator(g),
        }
    }
}

/// Converted arguments in the schema's order.
pub type Arguments = SmallVec<[Converted; 8]>;

/// A parsed call, filled in where it stands: it is too large to be handed from function to function.
#[derive(Default)]
pub struct Parsed {
    /// The operator's arguments.
    pub arguments: Arguments,
    /// The objects of the tensors it writes, in order; null for one that was not given.
    pub written: SmallVec<[*mut PyObject; 2]>,
}

/// What conversions cost; exact matches are free.
pub mod cost {
    pub const NUMBER_TO_WIDER: u32 = 1;
    pub const EXPANDED: u32 = 3;
    pub const SPREAD: u32 = 4;
    pub const TENSOR_TO_NUMBER: u32 = 20;
    pub const NUMBER_TO_TENSOR: u32 = 40;
}

/// Operators that take a number where their schema says `Tensor`.
fn takes_numbers_as_tensors(name: &str) -> bool {
    const NAMES: &[&str] =
        &["add", "sub", "mul", "div", "divide", "multiply", "subtract", "true_divide", "floor_divide"];
    NAMES.contains(&name.strip_suffix('_').unwrap_or(name))
}

impl Overload {
    /// The signature of an operator.
    pub fn new(py: Python<'_>, op: &'static Op) -> Overload {
        let schema = op.schema();
        let numbers = takes_numbers_as_tensors(&schema.name);
        let is_out = |p: &Param| p.keyword_only && p.alias.as_ref().is_some_and(|a| a.write);
        let has = |name: &str| schema.params.iter().any(|p| p.name == name);
        let parameters: Vec<Parameter> = schema
            .params
            .iter()
            .map(|p| Parameter {
                name: PyString::intern(py, &p.name).into_ptr(),
                text: p.name.clone(),
                ty: p.ty,
                default: p.default_value(),
                keyword_only: p.keyword_only,
                out: is_out(p),
                numbers: numbers && p.alias.is_none(),
            })
            .collect();
        let positional = schema.params.iter().filter(|p| !p.keyword_only).count();
        let list = |p: &Param| p.ty.base == Base::Int && p.ty.list == Some(None);
        let first = schema.params.iter().position(|p| p.name != "self");
        Overload {
            op,
            positional,
            outs: (0..parameters.len()).filter(|i| parameters[*i].out).collect(),
            this: schema
                .params
                .iter()
                .position(|p| p.name == "self" && p.ty.base == Base::Tensor && p.ty.list.is_none()),
            fills_out: false,
            factory: has("dtype") && has("layout") && has("device"),
            spread: first.filter(|at| positional == at + 1 && list(&schema.params[*at])),
            hidden: false,
            // What comes back: of a form that writes to given outputs not the running statistics that it moves too.
            written: (0..schema.params.len())
                .filter(|i| schema.params[*i].alias.as_ref().is_some_and(|a| a.write))
                .filter(|i| parameters[*i].out || !parameters.iter().any(|p| p.out))
                .collect(),
            parameters,
        }
    }

    /// Whether it writes to given outputs.
    pub fn takes_out(&self) -> bool {
        !self.outs.is_empty()
    }

    /// Whether it writes what a factory makes to a given output: a call may repeat that one's dtype, layout and device.
    pub fn fills_out(&self) -> bool {
        self.fills_out
    }

    /// Another overload of the function makes tensors from nothing.
    pub fn beside_factory(&mut self) {
        self.fills_out = self.takes_out() && !self.factory;
    }

    /// Whether results may be asked to require gradients.
    pub fn is_factory(&self) -> bool {
        self.factory
    }

    /// Finds each argument's place and says what conversions they need; or why they do not fit.
    pub fn bind(&self, call: &Call<'_>, explain: bool, slots: &mut Slots) -> Result<u32, String> {
        let refuse = |why: &dyn Fn() -> String| -> Result<u32, String> {
            Err(if explain { format!("{}(){}", self.op.name(), why()) } else { String::new() })
        };
        let parameters = &self.parameters;
        slots.clear();
        slots.resize(parameters.len(), Slot::Default);
        let this = if call.this.is_null() { usize::MAX } else { self.this.unwrap_or(usize::MAX) };
        if let Some(slot) = slots.get_mut(this) {
            *slot = Slot::Object(call.this);
        }
        let mut total = 0;
        let mut place = 0;
        for (k, &object) in call.args.iter().enumerate() {
            if place == this {
                place += 1;
            }
            if place >= self.positional {
                let most = self.positional - usize::from(this != usize::MAX);
                let s = if most == 1 { "" } else { "s" };
                let were = if call.args.len() == 1 { "was" } else { "were" };
                return refuse(&|| {
                    format!(" takes {most} positional argument{s} but {} {were} given", call.args.len())
                });
            }
            if self.spread == Some(place) && is_int_in_list(call.py, object) {
                slots[place] = Slot::Spread(k);
                total += cost::SPREAD;
                break;
            }
            slots[place] = Slot::Object(object);
            place += 1;
        }
        let mut unexpected = None;
        for &(name, value) in &call.named {
            let at = match parameters.iter().position(|p| std::ptr::eq(p.name, name)) {
                Some(i) if !parameters[i].out || self.outs.len() == 1 => Some(i),
                Some(_) => None,
                None => self.called(&text(name)),
            };
            match at {
                Some(i) if matches!(slots[i], Slot::Default) => slots[i] = Slot::Object(value),
                Some(i) => {
                    let shown = if parameters[i].text == "self" { "input" } else { &parameters[i].text };
                    return refuse(&|| format!(" got multiple values for argument '{shown}'"));
                }
                None if text(name) == "out" && self.takes_out() => self.place_outputs(value, slots).map_err(|got| {
                    format!("{}(): argument 'out' must be tuple of Tensors, not {got}", self.op.name())
                })?,
                None if is_none(value) => {}
                // Factories take these beside `out=`, whose own they must be.
                None if self.fills_out
                    && matches!(
                        text(name).as_str(),
                        "dtype" | "layout" | "device" | "pin_memory" | "requires_grad"
                    ) => {}
                None if self.factory && text(name) == "requires_grad" => {}
                None if explain => unexpected = unexpected.or(Some(name)),
                None => return Err(String::new()),
            }
        }
        for (i, (slot, p)) in slots.iter().zip(parameters).enumerate() {
            match *slot {
                Slot::Default if p.default.is_some() => {}
                Slot::Default => return refuse(&|| self.missing(slots)),
                Slot::Spread(_) => {}
                Slot::Object(object) => match check(call.py, p, object) {
                    Some(c) => total += c,
                    None => return Err(if explain { self.wrong_type(call, i, object) } else { String::new() }),
                },
            }
        }
        match unexpected {
            None => Ok(total),
            Some(name) => refuse(&|| format!(" got an unexpected keyword argument '{}'", text(name))),
        }
    }

    /// The parameter that users may call `given`.
    pub fn called(&self, given: &str) -> Option<usize> {
        let same = |p: &Parameter| match p.text.as_str() {
            own if own == given => !p.out || self.outs.len() == 1,
            "self" => matches!(given, "input" | "x" | "a" | "x1"),
            "input" => matches!(given, "x" | "a" | "x1"),
            "other" => given == "x2",
            "dim" => given == "axis",
            "keepdim" => given == "keepdims",
            _ => p.out && self.outs.len() == 1 && given == "out",
        };
        self.parameters.iter().position(same)
    }

    /// `out=(values, indices)`.
    fn place_outputs(&self, value: *mut PyObject, slots: &mut Slots) -> Result<(), String> {
        let items = Items::of(value).ok_or_else(|| type_name(value))?;
        if items.0.len() != self.outs.len() {
            return Err(list_type_name(value));
        }
        for (&at, &item) in self.outs.iter().zip(items.iter()) {
            slots[at] = Slot::Object(item);
        }
        Ok(())
    }

    #[cold]
    fn missing(&self, slots: &Slots) -> String {
        let absent: Vec<String> = slots
            .iter()
            .zip(&self.parameters)
            .filter(|(s, p)| matches!(s, Slot::Default) && p.default.is_none())
            .map(|(_, p)| format!("\"{}\"", if p.text == "self" { "input" } else { &p.text }))
            .collect();
        format!(" missing {} required positional arguments: {}", absent.len(), absent.join(", "))
    }

    #[cold]
    fn wrong_type(&self, call: &Call<'_>, i: usize, object: *mut PyObject) -> String {
        let p = &self.parameters[i];
        if let (Base::Tensor, Some(_), Some(items)) = (p.ty.base, p.ty.list, Items::of(object))
            && let Some(k) = items.iter().position(|item| !is_tensor(*item))
        {
            return format!("expected Tensor as element {k} in argument {i}, but got {}", type_name(items.0[k]));
        }
        let items = Items::of(object).filter(|_| p.ty.base == Base::Int && p.ty.list.is_some());
        let stranger = items.and_then(|items| {
            let at = items.iter().enumerate().position(|(place, o)| int_in_list(call.py, place, *o).is_none())?;
            Some(format!("but found element of type {} at pos {at}", type_name(items.0[at])))
        });
        let place = call.args.iter().position(|a| *a == object);
        let place = place.filter(|_| !p.keyword_only && !call.named.iter().any(|(_, v)| *v == object));
        let place = place.map_or(String::new(), |k| format!(" (position {})", k + 1));
        let name = if p.text == "self" {
            "input"
        } else if p.out {
            "out"
        } else {
            &p.text
        };
        format!(
            "{}(): argument '{name}'{place} must be {}, {}",
            self.op.name(),
            type_text(&p.ty),
            stranger.unwrap_or_else(|| format!("not {}", type_name(object)))
        )
    }

    #[inline]
    fn finish(&'static self, call: &Call<'_>, slots: &Slots, parsed: &mut Parsed) -> PyResult<&'static Overload> {
        self.convert(call, slots, &mut parsed.arguments)?;
        if let (Some(at), false) = (self.this, call.named.is_empty() && call.args.first().is_none_or(|a| is_tensor(*a)))
        {
            self.number_first(at, &mut parsed.arguments)?;
        }
        for &i in &self.written {
            parsed.written.push(match slots[i] {
                Slot::Object(o) => o,
                _ => std::ptr::null_mut(),
            });
        }
        Ok(self)
    }

    /// A number in the place of `self` becomes a 0-d tensor of the dtype that it would have beside the other operand.
    #[cold]
    fn number_first(&self, at: usize, arguments: &mut Arguments) -> PyResult<()> {
        let Converted::Other(OwnedValue::Scalar(s)) = arguments[at] else { return Ok(()) };
        let other = arguments.iter().find_map(|a| match a {
            Converted::Tensor(t) => Some(t),
            _ => None,
        });
        let dtype = match other {
            Some(t) => flambeau::promotion::result_type_with(t, s),
            None => DType::of_scalar(&s, flambeau::default_dtype()),
        };
        let device = other.map_or(Device::CPU, Tensor::device);
        arguments[at] = Converted::Tensor(Tensor::full(&[], s, (dtype, device)).map_err(crate::error::raise)?);
        Ok(())
    }

    /// The arguments in the operator's types.
    fn convert(&'static self, call: &Call<'_>, slots: &Slots, converted: &mut Arguments) -> PyResult<()> {
        for (slot, p) in slots.iter().zip(&self.parameters) {
            let no_integer = |items: &[*mut PyObject]| no_integer(call.py, self.op.name(), &p.text, items);
            converted.push(match *slot {
                Slot::Default => p.default.as_ref().map_or(Converted::None, Converted::Default),
                Slot::Object(object) => convert(call.py, p, object).map_err(|e| {
                    let items = Items::of(object).filter(|_| p.ty.base == Base::Int && p.ty.list.is_some());
                    items.and_then(|items| no_integer(&items.0)).unwrap_or(e)
                })?,
                Slot::Spread(k) => {
                    let items = call.args[k..].iter().enumerate();
                    let ints = items.map(|(place, o)| int_in_list(call.py, place, *o)).collect::<Option<Dims>>();
                    Converted::Ints(ints.ok_or_else(|| no_integer(&call.args[k..]).unwrap_or_else(overflow))?)
                }
            });
        }
        Ok(())
    }

    /// Whether all positional arguments may be one list of integers.
    pub fn takes_spread(&self) -> bool {
        self.spread.is_some()
    }

    /// Whether this is `other` with outputs given.
    pub fn is_out_form_of(&self, other: &Overload) -> bool {
        let own: Vec<&Parameter> = self.parameters.iter().filter(|p| !p.out).collect();
        let same = |(a, b): (&&Parameter, &Parameter)| a.text == b.text && a.ty == b.ty;
        self.takes_out()
            && own.iter().zip(&other.parameters).all(same)
            && (own.len() == other.parameters.len() || (other.factory && own.len() < other.parameters.len()))
    }

    /// How many outputs the form of this operator takes that writes to given ones; none if there is no such form.
    pub fn outputs_of_out_form(&self, overloads: &[Overload]) -> usize {
        overloads.iter().find(|o| o.is_out_form_of(self)).map_or(0, |o| o.outs.len())
    }
}

/// Marks the overloads whose numbers another overload takes in the place of tensors.
pub fn hide_numbers(overloads: &mut [Overload]) {
    let Some(name) = overloads.first().map(|o| o.op.name()) else { return };
    if takes_numbers_as_tensors(name) && overloads.iter().any(|o| o.parameters.get(1).is_some_and(|p| p.numbers)) {
        for o in overloads {
            o.hidden = o.parameters.get(1).is_some_and(|p| p.ty.base == Base::Scalar);
        }
    }
}

/// Finds the overload for a call among `overloads`, and converts the arguments into `parsed`, which is empty.
///
/// # Errors
/// `TypeError` when none takes these arguments, in PyTorch's words.
#[inline]
pub fn parse(overloads: &'static [Overload], call: &Call<'_>, parsed: &mut Parsed) -> PyResult<&'static Overload> {
    let out = call.named.iter().any(|(n, v)| is_out_name(*n, *v));
    let (mut slots, mut slots_of_best) = (Slots::new(), Slots::new());
    let mut best: Option<(u32, &'static Overload)> = None;
    for overload in overloads {
        if overload.hidden || overload.takes_out() != out || (!call.this.is_null() && (out || overload.this.is_none()))
        {
            continue;
        }
        if let Ok(cost) = overload.bind(call, false, &mut slots) {
            if cost == 0 {
                return overload.finish(call, &slots, parsed);
            }
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, overload));
                std::mem::swap(&mut slots, &mut slots_of_best);
            }
        }
    }
    match best {
        Some((_, overload)) => overload.finish(call, &slots_of_best, parsed),
        None => parse_old_order(overloads, call, parsed).unwrap_or_else(|| Err(explain(overloads, call, out))),
    }
}

#[inline(always)]
fn is_out_name(name: *mut PyObject, value: *mut PyObject) -> bool {
    // SAFETY: live objects.
    unsafe { value != ffi::Py_None() && ffi::PyUnicode_CompareWithASCIIString(name, c"out".as_ptr()) == 0 }
}
