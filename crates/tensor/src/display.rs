//! A tensor as text, exactly as PyTorch prints it.
//!
//! A pure function of the sizes and a way to read an element: [`format_tensor`]. All elements that are shown share one
//! number format, chosen after looking at all of them: whole numbers (`1.`), fixed point (`1.5000`) or scientific
//! (`1.0000e-07`), padded to one width. More than [`PrintOptions::threshold`] elements are summarised: only
//! [`PrintOptions::edgeitems`] at both ends of each dimension are read at all ([`crate::shown_elements`]).

use flambeau_base::{DType, Scalar};
use std::fmt::Write;

/// How tensors are printed (PyTorch's `set_printoptions`).
#[derive(Clone, Debug, PartialEq)]
pub struct PrintOptions {
    /// Digits after the point.
    pub precision: usize,
    /// More elements than this are summarised.
    pub threshold: usize,
    /// How many elements a summary shows at each end of a dimension.
    pub edgeitems: usize,
    /// Characters per line.
    pub linewidth: usize,
    /// Scientific notation always, never, or when the values ask for it.
    pub sci_mode: Option<bool>,
}

impl PrintOptions {
    /// PyTorch's profile `default`.
    pub const DEFAULT: PrintOptions =
        PrintOptions { precision: 4, threshold: 1000, edgeitems: 3, linewidth: 80, sci_mode: None };
    /// PyTorch's profile `short`.
    pub const SHORT: PrintOptions = PrintOptions { precision: 2, edgeitems: 2, ..PrintOptions::DEFAULT };
    /// PyTorch's profile `full`.
    pub const FULL: PrintOptions = PrintOptions { threshold: usize::MAX, ..PrintOptions::DEFAULT };
}

impl Default for PrintOptions {
    fn default() -> PrintOptions {
        PrintOptions::DEFAULT
    }
}

/// What is printed: a tensor's elements and what is said of it after them.
pub struct TensorText<'a> {
    /// What stands before the elements: `tensor(`.
    pub prefix: &'a str,
    /// The element type.
    pub dtype: DType,
    /// The default floating-point type, which is not mentioned.
    pub default_dtype: DType,
    /// The sizes.
    pub sizes: &'a [i64],
    /// The element at a flat index in row-major order; `None` for a tensor without data.
    pub element: Option<&'a dyn Fn(usize) -> Scalar>,
    /// The device, if it is to be mentioned.
    pub device: Option<&'a str>,
    /// The name of the function that made it, if one did.
    pub grad_fn: Option<&'a str>,
    /// Whether it is a leaf that requires a gradient.
    pub requires_grad: bool,
    /// What else to mention, in order.
    pub suffixes: &'a [String],
}

impl<'a> TensorText<'a> {
    /// A plain tensor of the default device.
    pub fn new(dtype: DType, sizes: &'a [i64], element: &'a dyn Fn(usize) -> Scalar) -> TensorText<'a> {
        TensorText {
            prefix: "tensor(",
            dtype,
            default_dtype: DType::F32,
            sizes,
            element: Some(element),
            device: None,
            grad_fn: None,
            requires_grad: false,
            suffixes: &[],
        }
    }
}

/// The text of a tensor as PyTorch's `repr` gives it.
pub fn format_tensor(tensor: &TensorText<'_>, options: &PrintOptions) -> String {
    let mut suffixes = Vec::new();
    if let Some(device) = tensor.device {
        suffixes.push(format!("device='{device}'"));
    }
    let indent = tensor.prefix.chars().count();
    let mut text = tensor.prefix.to_owned();
    let empty = tensor.sizes.contains(&0);
    let size = || format!("size={}", tuple(tensor.sizes));
    let show_size = match tensor.element {
        None => true,
        // One empty dimension is what `[]` means.
        Some(_) if empty => tensor.sizes.len() != 1,
        Some(_) => options.edgeitems == 0,
    };
    if show_size {
        suffixes.push(size());
    }
    let told_by_elements = match tensor.element {
        Some(_) if !empty => {
            matches!(tensor.dtype, DType::I64 | DType::Bool) || tensor.dtype == tensor.default_dtype.to_complex()
        }
        _ => false,
    };
    if tensor.dtype != tensor.default_dtype && !told_by_elements {
        suffixes.push(format!("dtype=torch.{}", tensor.dtype));
    }
    match tensor.element {
        None => text.push_str("..."),
        Some(_) if empty => text.push_str("[]"),
        Some(element) => Elements::new(tensor, element, options).write(&mut text, 0, 0, indent),
    }
    if let Some(name) = tensor.grad_fn {
        suffixes.push(format!("grad_fn=<{name}>"));
    } else if tensor.requires_grad {
        suffixes.push("requires_grad=True".to_owned());
    }
    // Two more than it is: PyTorch leaves room so, and lines must break at the same places.
    let mut column = text.chars().rev().take_while(|&c| c != '\n').count() + 2;
    for suffix in suffixes.iter().chain(tensor.suffixes) {
        let length = suffix.chars().count();
        if column + length + 2 > options.linewidth {
            let _ = write!(text, ",\n{:indent$}{suffix}", "");
            column = indent + length;
        } else {
            let _ = write!(text, ", {suffix}");
            column += length + 2;
        }
    }
    text.push(')');
    text
}

fn tuple(sizes: &[i64]) -> String {
    match sizes {
        [one] => format!("({one},)"),
        _ => format!("({})", sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// The number format that all elements shown share.
#[derive(Clone, Copy)]
enum Notation {
    /// Integers and booleans.
    Plain,
    /// Floating point, all whole: `1.`
    Whole,
    Fixed(usize),
    Scientific(usize),
}

#[derive(Clone, Copy)]
struct NumberFormat {
    notation: Notation,
    width: usize,
}

impl NumberFormat {
    fn of_plain(values: &[Scalar]) -> NumberFormat {
        let width = |v: &Scalar| v.to_string().len();
        NumberFormat { notation: Notation::Plain, width: values.iter().map(width).max().unwrap_or(0).max(1) }
    }

    fn of_floats(values: impl Iterator<Item = f64> + Clone, options: &PrintOptions) -> NumberFormat {
        // Zeros, infinities and NaNs fit any format, and do not count for the width either.
        let counted = values.filter(|v| v.is_finite() && *v != 0.0);
        let (least, most) = counted.clone().fold((f64::INFINITY, 0.0f64), |(l, m), v| (l.min(v.abs()), m.max(v.abs())));
        if most == 0.0 {
            return NumberFormat { notation: Notation::Whole, width: 1 };
        }
        let whole = counted.clone().all(|v| v == v.ceil());
        // PyTorch's limits.
        let wide = most / least > 1000.0 || most > 1e8 || (!whole && least < 1e-4);
        let notation = match options.sci_mode.unwrap_or(wide) {
            true => Notation::Scientific(options.precision),
            false if whole => Notation::Whole,
            false => Notation::Fixed(options.precision),
        };
        NumberFormat { notation, width: counted.map(|v| notation.text(v).len()).max().unwrap_or(1) }
    }

    fn push(self, out: &mut String, value: Scalar) {
        let text = match self.notation {
            Notation::Plain => value.to_string(),
            notation => notation.text(value.to_f64()),
        };
        let _ = write!(out, "{text:>width$}", width = self.width);
    }
}

impl Notation {
    fn text(self, v: f64) -> String {
        if v.is_nan() {
            return "nan".to_owned();
        }
        if v.is_infinite() {
            return if v > 0.0 { "inf" } else { "-inf" }.to_owned();
        }
        match self {
            Notation::Plain => v.to_string(),
            Notation::Whole => format!("{v:.0}."),
            Notation::Fixed(precision) => format!("{v:.precision$}"),
            Notation::Scientific(precision) => {
                // Rust writes `1.5e-7`, C and Python `1.5e-07`.
                let text = format!("{v:.precision$e}");
                let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |d| ('-', d));
                format!("{mantissa}e{sign}{digits:0>2}")
            }
        }
    }
}

struct Elements<'a> {
    sizes: &'a [i64],
    /// Row-major strides.
    strides: Vec<usize>,
    element: &'a dyn Fn(usize) -> Scalar,
    summarise: bool,
    edge: usize,
    linewidth: usize,
    /// The format of a real number or of a complex one's real part.
    real: NumberFormat,
    imaginary: Option<NumberFormat>,
}

impl<'a> Elements<'a> {
    fn new(tensor: &TensorText<'a>, element: &'a dyn Fn(usize) -> Scalar, options: &PrintOptions) -> Elements<'a> {
        let mut strides = vec![1usize; tensor.sizes.len()];
        for dim in (1..strides.len()).rev() {
            strides[dim - 1] = strides[dim].saturating_mul(tensor.sizes[dim] as usize);
        }
        let numel = tensor.sizes.iter().fold(1usize, |n, &s| n.saturating_mul(s as usize));
        let placeholder = NumberFormat { notation: Notation::Plain, width: 1 };
        let mut elements = Elements {
            sizes: tensor.sizes,
            strides,
            element,
            summarise: numel > options.threshold,
            edge: options.edgeitems,
            linewidth: options.linewidth,
            real: placeholder,
            imaginary: None,
        };
        let mut shown = Vec::new();
        elements.visit(0, 0, &mut |index| shown.push(element(index)));
        if tensor.dtype.is_complex() {
            let parts = || shown.iter().map(|v| v.to_complex());
            elements.real = NumberFormat::of_floats(parts().map(|c| c.re), options);
            elements.imaginary = Some(NumberFormat::of_floats(parts().map(|c| c.im), options));
        } else if tensor.dtype.is_floating_point() {
            elements.real = NumberFormat::of_floats(shown.iter().map(|v| v.to_f64()), options);
        } else {
            elements.real = NumberFormat::of_plain(&shown);
        }
        elements
    }

    /// The positions shown along `dim`; `None` stands for an ellipsis.
    fn positions(&self, dim: usize) -> impl Iterator<Item = Option<usize>> + use<> {
        let size = self.sizes[dim] as usize;
        let cut = self.summarise && size > self.edge.saturating_mul(2);
        let (head, tail) = if cut { (self.edge, size - self.edge) } else { (size, size) };
        (0..head).map(Some).chain(cut.then_some(None)).chain((tail..size).map(Some))
    }

    fn visit(&self, dim: usize, start: usize, f: &mut impl FnMut(usize)) {
        if dim == self.sizes.len() {
            return f(start);
        }
        for position in self.positions(dim).flatten() {
            self.visit(dim + 1, start + position * self.strides[dim], f);
        }
    }

    fn write_element(&self, out: &mut String, index: usize) {
        let value = (self.element)(index);
        let Some(imaginary) = self.imaginary else {
            return self.real.push(out, value);
        };
        let value = value.to_complex();
        self.real.push(out, Scalar::Float(value.re));
        let text = imaginary.notation.text(value.im);
        if !text.starts_with('-') {
            out.push('+');
        }
        out.push_str(&text);
        out.push('j');
    }

    /// Writes the part of the tensor at `start` from `dim` on; `indent` is the column of its bracket.
    fn write(&self, out: &mut String, dim: usize, start: usize, indent: usize) {
        let remaining = self.sizes.len() - dim;
        if remaining == 0 {
            return self.write_element(out, start);
        }
        out.push('[');
        if self.summarise && self.edge == 0 {
            out.push_str("...]");
            return;
        }
        // How many elements fit on a line: each with its comma and space, a complex one's parts with the sign between.
        let length = self.real.width + 2 + self.imaginary.map_or(0, |i| i.width + 1);
        let per_line = (self.linewidth.saturating_sub(indent) / length).max(1);
        for (i, position) in self.positions(dim).enumerate() {
            if remaining == 1 {
                match i {
                    0 => {}
                    _ if i % per_line == 0 => drop(write!(out, ",\n{:1$}", "", indent + 1)),
                    _ => out.push_str(", "),
                }
                match position {
                    Some(p) => self.write_element(out, start + p),
                    None => out.push_str(" ..."),
                }
            } else {
                if i > 0 {
                    let _ = write!(out, ",{}{:2$}", "\n".repeat(remaining - 1), "", indent + 1);
                }
                match position {
                    Some(p) => self.write(out, dim + 1, start + p * self.strides[dim], indent + 1),
                    None => out.push_str("..."),
                }
            }
        }
        out.push(']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn scalar(v: &Value, dtype: DType) -> Scalar {
        let float = |v: &Value| v.as_str().unwrap().parse::<f64>().unwrap();
        match v {
            Value::Array(parts) => Scalar::Complex(num_complex::Complex::new(float(&parts[0]), float(&parts[1]))),
            v if dtype.is_floating_point() => Scalar::Float(float(v)),
            Value::Bool(b) => Scalar::Bool(*b),
            v => v.as_i64().map(Scalar::Int).unwrap_or_else(|| Scalar::UInt(v.as_u64().unwrap())),
        }
    }

    /// Every case of `tests/data/display.jsonl`, which `tests/data/display.py` writes by asking PyTorch. A tensor longer
    /// than its list of values repeats them.
    #[test]
    fn prints_as_pytorch_does() {
        let (mut cases, mut wrong) = (0, 0);
        for line in include_str!("../tests/data/display.jsonl").lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let number = |v: &Value| v.as_u64().unwrap() as usize;
            let options = PrintOptions {
                precision: number(&case["precision"]),
                threshold: case["threshold"].as_u64().map_or(usize::MAX, |n| n as usize),
                edgeitems: number(&case["edgeitems"]),
                linewidth: number(&case["linewidth"]),
                sci_mode: case["sci_mode"].as_bool(),
            };
            let dtype = DType::by_name(case["dtype"].as_str().unwrap()).unwrap();
            let sizes: Vec<i64> = case["sizes"].as_array().unwrap().iter().map(|s| s.as_i64().unwrap()).collect();
            let values: Vec<Scalar> = case["values"].as_array().unwrap().iter().map(|v| scalar(v, dtype)).collect();
            let element = |i: usize| values[i % values.len()];
            let mut text = TensorText::new(dtype, &sizes, &element);
            text.default_dtype = DType::by_name(case["default"].as_str().unwrap()).unwrap();
            text.device = case["device"].as_str();
            text.grad_fn = case["grad_fn"].as_str();
            text.requires_grad = case["requires_grad"].as_bool().unwrap();
            if text.device == Some("meta") {
                text.element = None;
            }
            let got = format_tensor(&text, &options);
            let expected = case["text"].as_str().unwrap();
            cases += 1;
            if got != expected {
                wrong += 1;
                println!("--- {dtype} {sizes:?} {options:?}\nexpected {expected}\ngot      {got}");
            }
        }
        assert_eq!(wrong, 0, "of {cases}");
        assert!(cases >= 150);
    }

    #[test]
    fn a_summary_reads_only_what_it_shows() {
        let reads = std::cell::Cell::new(0);
        let element = |i: usize| {
            reads.set(reads.get() + 1);
            Scalar::Int(i as i64 % 10)
        };
        let sizes = [1 << 20, 1 << 20, 1 << 10];
        format_tensor(&TensorText::new(DType::I64, &sizes, &element), &PrintOptions::DEFAULT);
        assert_eq!(reads.get(), 2 * 6 * 6 * 6);
    }
}
