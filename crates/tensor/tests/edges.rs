//! What happens at the edges of dtypes: numbers that an element cannot hold, and values and gradients at special
//! arguments, as PyTorch 2.13 gives them.

use flambeau::*;

fn message<T>(r: Result<T>) -> String {
    r.err().map_or(String::new(), |e| e.message().to_string())
}

fn op(name: &str) -> &'static Op {
    registry::find(name).unwrap()
}

/// Two elements of any dtype.
fn pair(dtype: DType) -> Tensor {
    Tensor::from_slice(&[1u8, 0]).unwrap().to_dtype(dtype).unwrap()
}
fn square(dtype: DType) -> Tensor {
    Tensor::ones(&[2, 2], dtype).unwrap()
}

/// Calls that write a number as an element, or compute with it.
type Call = (&'static str, fn(DType, Scalar) -> Result<Tensor>);

#[rustfmt::skip]
const CALLS: &[Call] = &[
    ("add", |d, v| pair(d).add_scaled(&pair(d), v)),
    ("add_", |d, v| pair(d).add_scaled_(&pair(d), v)),
    ("clamp_max", |d, v| pair(d).clamp_max(v)),
    ("clamp", |d, v| pair(d).clamp(v, v)),
    ("fill_", |d, v| pair(d).fill_(v)),
    ("full", |d, v| Tensor::full(&[2], v, d)),
    ("masked_fill", |d, v| pair(d).masked_fill(&pair(DType::Bool), v)),
    ("masked_fill_", |d, v| pair(d).masked_fill_(&pair(DType::Bool), v)),
    ("scatter", |d, v| pair(d).scatter_value(0, &pair(DType::I64), v)),
    ("constant_pad_nd", |d, v| pair(d).constant_pad_nd(&[1, 1], v)),
    ("addmm", |d, v| square(d).addmm_scaled(&square(d), &square(d), v, 1)),
    ("addcmul", |d, v| pair(d).addcmul(&pair(d), &pair(d), v)),
    ("threshold", |d, v| pair(d).threshold(0, v)),
];

#[test]
fn numbers_that_no_element_can_hold_are_refused() {
    use DType::*;
    let (int, float) = (Scalar::Int, Scalar::Float);
    // The largest and smallest that are taken, one beyond each, and the type's name.
    let whole = [
        (U8, "uint8_t", [255, -255], [256, -256]),
        (I8, "int8_t", [127, -128], [128, -129]),
        (I16, "int16_t", [32767, -32768], [32768, -32769]),
        (I32, "int", [2147483647, -2147483648], [2147483648, -2147483649]),
    ];
    for (name, call) in CALLS {
        for (dtype, text, taken, refused) in whole {
            let wanted = format!("value cannot be converted to type {text} without overflow");
            for v in taken {
                assert!(call(dtype, int(v)).is_ok(), "{name} {dtype} {v}");
            }
            for v in refused {
                assert_eq!(message(call(dtype, int(v))), wanted, "{name} {dtype} {v}");
            }
        }
        assert!(message(call(F32, float(1e39))).ends_with("type float without overflow"), "{name}");
        assert!(call(F32, float(f64::INFINITY)).is_ok() && call(F32, float(f64::NAN)).is_ok(), "{name}");
        assert!(call(F64, float(1e300)).is_ok(), "{name}");
        let beyond = message(call(F16, float(65505.0)));
        match *name {
            "addmm" | "addcmul" => assert_eq!(beyond, "", "{name}: computed in single precision"),
            _ => assert!(beyond.ends_with("type c10::Half without overflow"), "{name}: {beyond}"),
        }
        // Only adding a multiple has a meaning for booleans, and every number is one.
        if !matches!(*name, "addmm" | "addcmul" | "threshold" | "clamp" | "clamp_max") {
            assert!(call(Bool, int(300)).is_ok(), "{name}");
        }
    }
}

#[test]
fn numbers_wrap_truncate_and_round_where_they_may() {
    let full = |v: Scalar, d: DType| {
        Tensor::full(&[2], v, d).unwrap().to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap()[0]
    };
    assert_eq!(full(Scalar::Int(-1), DType::U8), 255.0);
    assert_eq!(full(Scalar::Float(255.0), DType::U8), 255.0);
    assert_eq!(full(Scalar::Float(-0.0), DType::U8), 0.0);
    for (v, d) in [(255.5, DType::U8), (-0.5, DType::U8), (127.5, DType::I8), (-128.5, DType::I8), (9.3e18, DType::I64)]
    {
        assert!(message(Tensor::full(&[2], v, d)).contains("without overflow"), "{v} {d}");
    }
    for v in [f64::NAN, f64::INFINITY] {
        assert!(message(Tensor::full(&[2], v, DType::I64)).ends_with("type int64_t without overflow"));
    }
    assert!(message(Tensor::full(&[2], Complex::new(1.0, 1.0), DType::F64)).ends_with("type double without overflow"));
    assert!(
        message(Tensor::full(&[2], Complex::new(0.0, 1e39), DType::Complex64))
            .ends_with("c10::complex<float> without overflow")
    );
    // Numbers that take part in promotion as operands wrap instead.
    let x = Tensor::from_slice(&[1u8]).unwrap();
    assert_eq!(x.add(300).unwrap().to_vec::<u8>().unwrap(), [45]);
    assert_eq!(x.mul(300).unwrap().to_vec::<u8>().unwrap(), [44]);
    // A subtraction's factor counts with its sign changed.
    let own = |v: i64| {
        Tensor::from_slice(&[1i8])
            .unwrap()
            .rsub(0)
            .and_then(|x| op("sub.Tensor").call(&[(&x).into(), (&x).into(), Scalar::Int(v).into()]))
            .and_then(|o| o.one())
    };
    assert_eq!(own(128).unwrap().to_vec::<i8>().unwrap(), [127]);
    assert!(own(-128).is_err());
}

#[test]
fn factors_keep_their_category() {
    let add = |d: DType, v: Scalar| message(pair(d).add_scaled(&pair(d), v));
    assert_eq!(
        add(DType::I32, Scalar::Float(1.5)),
        "For integral input tensors, argument alpha must not be a floating point number."
    );
    assert_eq!(
        add(DType::F32, Complex::new(0.0, 1.0).into()),
        "For non-complex input tensors, argument alpha must not be a complex number."
    );
    assert_eq!(add(DType::F32, Scalar::Bool(true)), "Boolean alpha only supported for Boolean results.");
    let addr = |d: DType, beta: Scalar, alpha: Scalar| {
        let x = Tensor::eye(2, 2, d).unwrap();
        let (a, b) = (pair(d), Tensor::ones(&[2], d).unwrap());
        op("addr")
            .call(&[(&x).into(), (&a).into(), (&b).into(), beta.into(), alpha.into()])
            .and_then(|o| o.one())
            .and_then(|o| o.to_dtype(DType::I64)?.to_vec::<i64>())
    };
    let (zero, one) = (Scalar::Int(0), Scalar::Int(1));
    assert_eq!(addr(DType::Bool, Scalar::Int(2), Scalar::Int(3)).unwrap(), [1, 1, 0, 1]);
    assert_eq!(addr(DType::Bool, zero, one).unwrap(), [1, 1, 0, 0]);
    assert_eq!(addr(DType::Bool, one, zero).unwrap(), [1, 0, 0, 1]);
    assert!(message(addr(DType::Bool, Scalar::Float(1.5), one)).contains("argument beta must not be a floating point"));
    assert!(message(addr(DType::F32, Scalar::Bool(true), one)).contains("Boolean beta only supported"));
}

#[test]
fn limits_of_activations() {
    let bytes = pair(DType::U8);
    assert_eq!(message(bytes.hardtanh(-1, 1)), "cannot do hardtanh on an unsigned type with negative limits");
    assert_eq!(bytes.hardtanh(0.5, 1.7).unwrap().to_vec::<u8>().unwrap(), [1, 0]);
    let shrink = |d: DType, v: f64| message(pair(d).softshrink(v));
    assert_eq!(
        shrink(DType::F32, -0.1),
        "lambda must be in range [0, 3.40282e+38] for input dtype Float, but found -0.1"
    );
    assert_eq!(
        shrink(DType::F32, f64::NAN),
        "lambda must be in range [0, 3.40282e+38] for input dtype Float, but found nan"
    );
    assert_eq!(shrink(DType::F16, 1e5), "lambda must be in range [0, 65504] for input dtype Half, but found 100000");
    assert_eq!(
        shrink(DType::F32, 1e300),
        "lambda must be in range [0, 3.40282e+38] for input dtype Float, but found 1e+300"
    );
    assert!(shrink(DType::I32, 0.5).starts_with("\"softshrink_check\" not implemented for 'Int'"));
}
