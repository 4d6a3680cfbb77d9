//! What happens at the edges: numbers that an element cannot hold, values and gradients at special arguments, and
//! writes to memory that is reached twice, as PyTorch 2.13 has it.

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

/// A factor beyond the largest number with a sign, and integers without one in the strips that both share.
#[test]
fn integers_without_signs_keep_their_highest_bit() {
    let ones = |dtype| Tensor::ones(&[70], dtype);
    let sum = ones(DType::U32).unwrap().addcmul(&ones(DType::U32).unwrap(), &ones(DType::U32).unwrap(), 3e9).unwrap();
    assert_eq!((sum.dtype(), sum.to_vec::<u32>().unwrap()), (DType::U32, vec![3_000_000_001; 70]));
    let high = |dtype: DType, value: u64| Tensor::full(&[70], value, dtype).unwrap();
    for (dtype, top) in [(DType::U8, 1u64 << 7), (DType::U16, 1 << 15), (DType::U32, 1 << 31), (DType::U64, 1 << 63)] {
        let x = high(dtype, top);
        let widened = |x: Tensor| x.to_dtype(DType::U64).unwrap().to_vec::<u64>().unwrap();
        let sum = x.add(&ones(dtype).unwrap()).unwrap();
        assert_eq!((sum.dtype(), widened(sum)), (dtype, vec![top + 1; 70]), "{dtype}");
        assert_eq!(widened(x.bitwise_or(&ones(dtype).unwrap()).unwrap()), vec![top + 1; 70], "{dtype}");
        assert_eq!(widened(x.neg().unwrap()), vec![top; 70], "{dtype}");
        assert_eq!(widened(x.square().unwrap()), vec![0; 70], "{dtype}");
        assert!(x.eq(&x).unwrap().to_vec::<Bool>().unwrap().iter().all(|b| b.get()), "{dtype}");
    }
}

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
    let rows = pair(DType::I32).expand(&[3, 2]).unwrap();
    assert_eq!(message(rows.softshrink(0.5)), shrink(DType::I32, 0.5), "with the iterator too");
}

/// What a call on one list of numbers gives, by dtype; NaN stands for NaN, and zeros have their signs.
type Row = (&'static str, DType, fn(&Tensor) -> Result<Tensor>, &'static [f64], &'static [f64]);

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;
const THIRD: f64 = 1.0 / 3.0;

fn tensor(x: &[f64], dtype: DType) -> Tensor {
    Tensor::from_slice(x).unwrap().to_dtype(dtype).unwrap()
}
fn whole() -> Tensor {
    Tensor::from_slice(&[2049i32, 4097, 3]).unwrap()
}
fn third() -> Tensor {
    Tensor::scalar(THIRD as f32).unwrap()
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // Halves round where PyTorch computes in steps ...
    ("logit", DType::F16, |x| x.logit(None), &[0.284912109375, 0.439208984375, 0.5078125], &[-0.91943359375, -0.2437744140625, 0.031707763671875]),
    ("logit", DType::BF16, |x| x.logit(None), &[0.284912109375, 0.439208984375, 0.5078125], &[-0.921875, -0.2470703125, 0.03076171875]),
    ("ndtr", DType::F16, |x| x.special_ndtr(), &[-3.375, -1.5625, 0.75], &[0.00048828125, 0.05908203125, 0.7734375]),
    ("ndtr", DType::BF16, |x| x.special_ndtr(), &[-3.375, -1.5625, 0.75], &[0.0, 0.060546875, 0.7734375]),
    ("log_softmax", DType::F16, |x| x.log_softmax(0, None), &[8.375, 2.5, -1.25], &[-0.002925872802734375, -5.87890625, -9.625]),
    ("log_softmax", DType::BF16, |x| x.log_softmax(0, None), &[8.375, 2.5, -1.25], &[0.0, -5.875, -9.625]),
    ("log_softmax across", DType::F16, |x| x.view(&[3, 1])?.log_softmax(0, None)?.view(&[3]), &[8.375, 2.5, -1.25], &[-0.0028705596923828125, -5.87890625, -9.625]),
    ("div trunc", DType::F16, |x| x.div_mode(&tensor(&[0.1258544921875, -0.216796875, 3.0], DType::F16), Some("trunc")), &[-8.5546875, -3.890625, 10.0], &[-68.0, 17.0, 3.0]),
    ("div trunc", DType::BF16, |x| x.div_mode(&tensor(&[0.1258544921875, -0.216796875, 3.0], DType::BF16), Some("trunc")), &[-8.5546875, -3.890625, 10.0], &[-68.0, 18.0, 3.0]),
    ("div trunc number", DType::F16, |x| x.div_mode(0.1258544921875, Some("trunc")), &[-8.5546875, -3.890625, 10.0], &[-67.0, -30.0, 79.0]),
    ("linspace", DType::F16, |_| Tensor::linspace(-3.0, 5.3, 6, DType::F16), &[], &[-3.0, -1.3408203125, 0.318359375, 1.982421875, 3.640625, 5.30078125]),
    ("linspace", DType::BF16, |_| Tensor::linspace(-3.0, 5.3, 6, DType::BF16), &[], &[-3.0, -1.3359375, 0.328125, 1.984375, 3.65625, 5.3125]),
    // ... and take other operands as halves hold them, products and quotients by numbers excepted.
    ("add", DType::F16, |x| x.add(THIRD), &[0.271, -0.302, 100.0], &[0.6044921875, 0.03125, 100.3125]),
    ("add", DType::BF16, |x| x.add(THIRD), &[0.271, -0.302, 100.0], &[0.60546875, 0.03125, 100.5]),
    ("mul", DType::F16, |x| x.mul(THIRD), &[0.271, -0.302, 100.0], &[0.09033203125, -0.10064697265625, 33.34375]),
    ("mul 0-d", DType::BF16, |x| x.mul(&third()), &[0.271, -0.302, 100.0], &[0.09033203125, -0.10107421875, 33.25]),
    ("div", DType::F16, |x| x.div(3.3), &[0.271, -0.302, 100.0], &[0.08209228515625, -0.09149169921875, 30.296875]),
    ("fmod", DType::F16, |x| x.fmod(THIRD), &[0.271, -0.302, 100.0], &[0.27099609375, -0.302001953125, 0.0244140625]),
    ("sub 0-d", DType::F16, |x| x.sub(&third()), &[0.271, -0.302, 100.0], &[-0.062255859375, -0.63525390625, 99.6875]),
    ("add whole", DType::F16, |x| x.add(&whole()), &[0.271, -0.302, 100.0], &[2048.0, 4096.0, 103.0]),
    ("mul whole", DType::BF16, |x| x.mul(&whole()), &[0.271, -0.302, 100.0], &[556.0, -1240.0, 300.0]),
    ("alpha", DType::F16, |x| x.add_scaled(x, THIRD), &[0.271, -0.302], &[0.361328125, -0.402587890625]),
    ("pow", DType::F16, |x| x.pow(THIRD), &[0.271, 0.302, 100.0], &[0.64697265625, 0.6708984375, 4.640625]),
    ("eq", DType::F16, |x| x.eq(THIRD), &[THIRD], &[1.0]),
    // Special arguments.
    ("i0", DType::F32, |x| x.i0(), &[INF, -INF], &[NAN, NAN]),
    ("i1", DType::F64, |x| x.special_i1(), &[INF, -INF, -0.0], &[NAN, NAN, 0.0]),
    ("i1e", DType::F64, |x| x.special_i1e(), &[-0.0, INF, -INF], &[0.0, 0.0, -0.0]),
    ("lgamma", DType::F64, |x| x.lgamma(), &[-1e-200, 1e-300], &[460.51701859880916, 690.7755278982137]),
    ("ndtri", DType::F64, |x| x.special_ndtri(), &[5e-324], &[-38.467405617144344]),
    ("erfcx", DType::F32, |x| x.special_erfcx(), &[-6.068276882171631, -8.25], &[1.9655492628381696e16, 7.247665937788977e29]),
    ("pow", DType::F32, |x| x.pow(-0.5), &[-0.0, -INF, 4.0], &[-INF, NAN, 0.5]),
    ("pow", DType::F32, |x| x.pow(0.5), &[-0.0, -INF, 4.0], &[-0.0, NAN, 2.0]),
    ("pow", DType::F16, |x| x.pow(0.5), &[-0.0, -INF, 4.0], &[0.0, INF, 2.0]),
    ("pow", DType::F32, |x| x.pow(-2.0), &[-0.0, -INF, -3e20, 2.0], &[INF, 0.0, 0.0, 0.25]),
    ("pow", DType::F64, |x| x.pow(-1.0), &[-0.0, -INF, 4.0], &[-INF, -0.0, 0.25]),
    ("pow", DType::BF16, |x| x.pow(3), &[-0.0, -INF, 1.1015625], &[-0.0, -INF, 1.3359375]),
    ("pow", DType::F32, |x| x.pow(3), &[-0.0, -INF, -3.0], &[-0.0, -INF, -27.0]),
    ("elu", DType::F32, |x| x.elu(-INF, 1.0, 1.0), &[0.0, -0.0], &[0.0, -0.0]),
    ("gcd", DType::I8, |x| x.gcd(&tensor(&[-127.0, -128.0, 100.0], DType::I8)), &[-128.0, 127.0, -128.0], &[-1.0, -1.0, 4.0]),
];

fn agree(got: f64, wanted: f64, digits: f64) -> bool {
    match wanted == 0.0 {
        true => got == 0.0 && got.is_sign_negative() == wanted.is_sign_negative(),
        false => (got.is_nan() && wanted.is_nan()) || got == wanted || (got - wanted).abs() <= digits * wanted.abs(),
    }
}

#[test]
fn values_at_the_edges() {
    for (name, dtype, call, x, wanted) in ROWS {
        let result = call(&tensor(x, *dtype)).unwrap().to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
        let digits = match dtype {
            DType::F16 | DType::BF16 => 0.0,
            DType::F32 => 4e-7,
            _ => 1e-14,
        };
        assert_eq!(result.len(), wanted.len(), "{name} {dtype}");
        assert!(
            result.iter().zip(*wanted).all(|(g, w)| agree(*g, *w, digits)),
            "{name} {dtype}: {result:?}, not {wanted:?}"
        );
    }
}

#[test]
fn complex_values_at_the_edges() {
    type C = Complex32;
    let c = |re: f64, im: f64| C::new(re as f32, im as f32);
    let of = |z: &[C]| Tensor::from_slice(z).unwrap();
    let one = |z: C, call: fn(&Tensor) -> Result<Tensor>| call(&of(&[z])).unwrap();
    let power = |z: C, w: C| of(&[z]).pow(&of(&[w])).unwrap();
    let rows = [
        (
            power(c(-5.3954973220825195, -4.704184532165527), c(-7.112513542175293, 1.3271846771240234)),
            c(1.1100371011707466e-05, 1.7566702808835544e-05),
        ),
        (one(c(-7.950586795806885, 3.611605167388916), |z| z.sinc()), c(413.19317626953125, -1486.30517578125)),
        (power(c(INF, NAN), c(1.0, 2.0)), c(INF, NAN)),
        (power(c(NAN, INF), c(1.0, 2.0)), c(INF, NAN)),
        (of(&[c(INF, NAN)]).float_power(&of(&[c(1.0, 2.0)])).unwrap(), c(INF, NAN)),
        (one(c(INF, NAN), |z| z.acos()), c(NAN, -INF)),
        (one(c(-INF, NAN), |z| z.asin()), c(NAN, INF)),
        (one(c(-INF, INF), |z| z.sinh()), c(INF, NAN)),
        (one(c(INF, -INF), |z| z.sin()), c(NAN, INF)),
        (one(c(INF, NAN), |z| z.log1p()), c(NAN, NAN)),
        (of(&[c(INF, INF)]).logaddexp(&of(&[c(INF, NAN)])).unwrap(), c(NAN, NAN)),
    ];
    for (i, (got, wanted)) in rows.iter().enumerate() {
        let got = got.to_dtype(DType::Complex64).unwrap().to_vec::<C>().unwrap()[0];
        let close = agree(got.re as f64, wanted.re as f64, 4e-7) && agree(got.im as f64, wanted.im as f64, 4e-7);
        assert!(close, "row {i}: {got:?}, not {wanted:?}");
    }
}

#[test]
fn gradients_at_the_edges() {
    let leaf = |x: &[f64]| tensor(x, DType::F32).requires_grad_(true).unwrap();
    let grad = |x: &Tensor| x.grad().unwrap().to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
    let check = |name: &str, got: Vec<f64>, wanted: &[f64]| {
        assert!(got.iter().zip(wanted).all(|(g, w)| agree(*g, *w, 4e-7)), "{name}: {got:?}, not {wanted:?}");
    };
    let (y, x) = (leaf(&[0.0, 0.0, INF, 3.0]), leaf(&[0.0, -1.0, 1.0, 4.0]));
    y.atan2(&x).unwrap().sum().unwrap().backward().unwrap();
    check("atan2", grad(&y), &[0.0, -1.0, 0.0, 0.16]);
    check("atan2", grad(&x), &[-0.0, -0.0, NAN, -0.12]);
    let (x, y) = (leaf(&[1.0, 1.0, INF]), leaf(&[2.0, 1.0, INF]));
    x.nextafter(&y).unwrap().sum().unwrap().backward().unwrap();
    check("nextafter", grad(&x), &[1.0, 0.0, 0.0]);
    check("nextafter", grad(&y), &[0.0; 3]);
    type Slopes = (&'static str, fn(&Tensor) -> Result<Tensor>, [f64; 3], [f64; 3]);
    let rows: [Slopes; 3] = [
        ("mish", |x| x.mish(), [INF, 1e30, 50.0], [NAN, 1.0, 1.0]),
        ("i1", |x| x.special_i1(), [NAN, 1e-45, 0.0], [0.5, 0.5, 0.5]),
        ("i1e", |x| x.special_i1e(), [NAN, 1e-45, 0.0], [0.5, 0.5, 0.5]),
    ];
    for (name, call, x, wanted) in rows {
        let x = leaf(&x);
        call(&x).unwrap().sum().unwrap().backward().unwrap();
        check(name, grad(&x), &wanted);
    }
    // A power of zero does not depend on a real exponent, but on a complex one.
    let e = Tensor::from_slice(&[Complex64::new(1.0, 1.0), Complex64::new(2.0, 0.0)])
        .unwrap()
        .requires_grad_(true)
        .unwrap();
    let zero = Tensor::zeros(&[1], DType::Complex128).unwrap();
    zero.pow(&e).unwrap().real().unwrap().sum().unwrap().backward().unwrap();
    let g = e.grad().unwrap().to_vec::<Complex64>().unwrap();
    assert!(g[0].re.is_nan() && g[1] == Complex64::new(0.0, 0.0), "{g:?}");
}

#[test]
fn results_keep_the_order_of_dims() {
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let x = Tensor::ones(&[3, 4], dtype).unwrap().transpose(0, 1).unwrap();
        assert_eq!(x.nextafter(&x.add(1).unwrap()).unwrap().strides(), [1, 4], "{dtype}");
    }
}

#[test]
fn indices_of_no_dims() {
    let x = Tensor::arange(24, DType::I64).unwrap().view(&[2, 3, 4]).unwrap();
    let zero_d = |v: i64, d: DType| Tensor::full(&[], v, d).unwrap();
    // One of integers is an integer, and gives a view.
    let (one, rows) = (zero_d(1, DType::I32), Tensor::from_slice(&[0i64, 2]).unwrap());
    let part = x.at(&index![&one, 1..]).unwrap();
    assert_eq!(part.sizes(), [2, 4]);
    assert_eq!(part.data_ptr() as usize, x.data_ptr() as usize + 16 * 8);
    assert_eq!(x.at(&index![.., &rows, &one]).unwrap().sizes(), [2, 2]);
    assert_eq!(x.at(&index![&one, .., &rows]).unwrap().to_vec::<i64>().unwrap(), [12, 14, 16, 18, 20, 22]);
    // One of bytes is a mask, like one of booleans.
    for d in [DType::U8, DType::Bool] {
        assert_eq!(x.at(&index![zero_d(1, d)]).unwrap().sizes(), [1, 2, 3, 4]);
        assert_eq!(x.at(&index![zero_d(0, d), 1]).unwrap().sizes(), [0, 3, 4]);
    }
    x.set_at(&index![zero_d(0, DType::U8)], 7).unwrap();
    assert_eq!(x.at(&index![0, 0, 0]).unwrap().item().unwrap(), Scalar::Int(0));
    // Ranges that contain their end, and positions of other types.
    assert_eq!(x.at(&index![0usize, 1..=2, ..=2]).unwrap().sizes(), [2, 3]);
}

#[test]
fn values_may_have_more_leading_dims_of_one_than_an_index() {
    let x = Tensor::zeros(&[3, 4], DType::F32).unwrap();
    let (rows, columns) = (Tensor::from_slice(&[0i64, 1]).unwrap(), Tensor::from_slice(&[1i64, 2]).unwrap());
    x.set_at(&index![&rows], &Tensor::ones(&[1, 1, 1, 4], DType::F32).unwrap()).unwrap();
    x.add_at(&index![&rows, &columns], &Tensor::ones(&[1, 1, 2], DType::F32).unwrap()).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    assert!(x.set_at(&index![&rows], &Tensor::ones(&[1, 2, 1, 4], DType::F32).unwrap()).is_err());
}

#[test]
fn results_larger_than_memory_are_refused() {
    let wide = |n: i64, d: DType| Tensor::zeros(&[1], d).unwrap().expand(&[n]).unwrap();
    let x = wide(1 << 45, DType::F32);
    let refused = |e: String| assert!(e.contains("can't allocate memory"), "{e}");
    refused(message(x.nonzero()));
    refused(message(x.masked_select(&wide(1 << 45, DType::Bool))));
    refused(message(x.median()));
    refused(message(x.kthvalue(3, 0, false)));
    refused(message(wide(1 << 50, DType::F32).topk(3, 0, true)));
    refused(message(x.histc(1 << 45, 0.0, 1.0)));
    refused(message(x.unbind(0)));
    refused(message(wide(1 << 62, DType::F32).split(1, 0)));
    refused(message(wide(1 << 62, DType::F32).chunk(1 << 61, 0)));
    refused(message(Tensor::zeros(&[4], DType::F32).unwrap().tensor_split(1 << 62, 0)));
}

/// A call on the numbers from 0 to 5, some of which it would write.
type Write = fn(&Tensor) -> Result<Tensor>;

fn first_to_last(x: &Tensor) -> Result<Tensor> {
    x.narrow(0, 0, 5)
}
fn second_to_end(x: &Tensor) -> Result<Tensor> {
    x.narrow(0, 1, 5)
}
/// The first number four times.
fn repeated(x: &Tensor) -> Result<Tensor> {
    x.narrow(0, 0, 1)?.expand(&[4])
}
/// The result of an operator with an `out` argument, the last one.
fn out(name: &str, args: &[Value<'_>]) -> Result<Tensor> {
    op(name).call(args)?.one()
}

#[test]
fn nothing_is_written_where_elements_share_memory() {
    let twice = "unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
                 Please clone() the tensor before performing the operation.";
    let read = "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single \
                memory location. Please clone() the tensor before performing the operation.";
    let to_itself: &[(&str, Write)] = &[
        ("add_", |x| repeated(x)?.add_(1)),
        ("add_ of a tensor", |x| repeated(x)?.add_(&Tensor::ones(&[4], x.dtype())?)),
        ("neg_", |x| repeated(x)?.neg_()),
        ("clamp_", |x| repeated(x)?.clamp_(2, 3)),
        ("cumsum_", |x| repeated(x)?.cumsum_(0)),
        ("copy_", |x| repeated(x)?.copy_(&Tensor::ones(&[4], x.dtype())?)),
        ("windows", |x| x.unfold(0, 3, 1)?.mul_(2)),
        ("abs.out", |x| out("abs.out", &[(&Tensor::ones(&[4], x.dtype())?).into(), (&repeated(x)?).into()])),
    ];
    let to_inputs: &[(&str, Write)] = &[
        ("add_", |x| second_to_end(x)?.add_(&first_to_last(x)?)),
        ("mul_, backwards", |x| first_to_last(x)?.mul_(&second_to_end(x)?)),
        ("addcmul_", |x| second_to_end(x)?.addcmul_(&first_to_last(x)?, &first_to_last(x)?, 1)),
        ("copy_", |x| second_to_end(x)?.copy_(&first_to_last(x)?)),
        ("copy_, transposed", |x| {
            let square = x.narrow(0, 0, 4)?.view(&[2, 2])?;
            square.copy_(&square.t()?)
        }),
        ("add_, transposed", |x| {
            let square = x.narrow(0, 0, 4)?.view(&[2, 2])?;
            square.add_(&square.t()?)
        }),
        ("abs.out", |x| out("abs.out", &[(&first_to_last(x)?).into(), (&second_to_end(x)?).into()])),
        ("add.out", |x| {
            let (input, ones, target) = (first_to_last(x)?, Tensor::ones(&[5], x.dtype())?, second_to_end(x)?);
            out("add.out", &[(&ones).into(), (&input).into(), Scalar::Int(1).into(), (&target).into()])
        }),
        ("cat.out", |x| {
            let parts = [x.narrow(0, 0, 2)?, x.narrow(0, 0, 3)?];
            out("cat.out", &[Value::Tensors(&parts), 0i64.into(), (&second_to_end(x)?).into()])
        }),
        ("index_select.out", |x| {
            let (index, target) = (Tensor::from_slice(&[0i64, 1])?, x.narrow(0, 1, 2)?);
            out("index_select.out", &[(&first_to_last(x)?).into(), 0i64.into(), (&index).into(), (&target).into()])
        }),
    ];
    for (calls, wanted) in [(to_itself, twice), (to_inputs, read)] {
        for (name, call) in calls {
            for dtype in [DType::F32, DType::I64] {
                let x = Tensor::arange(6, dtype).unwrap();
                assert_eq!(message(call(&x)), wanted, "{name} {dtype}");
                let left = x.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
                assert_eq!(left, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "{name} {dtype}");
            }
        }
    }
}

/// What looks alike and is well defined.
#[test]
fn memory_may_be_shared_element_by_element_or_not_at_all() {
    let calls: &[(Write, [f32; 6])] = &[
        (|x| repeated(x)?.narrow(0, 0, 1)?.add_(1), [1.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        (|x| x.add_(x), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
        (|x| x.view(&[2, 3])?.add_(&x.view(&[2, 3])?), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
        (|x| x.narrow(0, 3, 3)?.add_(&x.narrow(0, 0, 3)?), [0.0, 1.0, 2.0, 3.0, 5.0, 7.0]),
        (|x| x.slice(0, Some(1), None, 2)?.add_(&x.slice(0, None, None, 2)?), [0.0, 1.0, 2.0, 5.0, 4.0, 9.0]),
        (|x| out("neg.out", &[x.into(), x.into()]), [-0.0, -1.0, -2.0, -3.0, -4.0, -5.0]),
    ];
    for (call, wanted) in calls {
        let x = Tensor::arange(6, DType::F32).unwrap();
        call(&x).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), *wanted);
    }
}

#[test]
fn views_of_nothing_lead_to_no_memory() -> Result<()> {
    let t = Tensor::zeros(&[4], DType::F32)?.as_strided(&[0, 5], &[1, i64::MAX / 2], Some(2))?;
    let far = t.narrow(1, 4, 1)?;
    assert!(far.storage_offset() >= 0);
    assert!(message(far.resize_(&[100])).contains("overflow"));
    for view in [t.select(1, 3)?, t.slice(1, Some(3), None, 2)?, t.diagonal(3, 0, 1)?, t.unfold(1, 2, 2)?] {
        assert_eq!(view.numel(), 0);
        assert!(view.storage_offset() >= 0);
        assert!(view.resize_(&[100]).is_err() || view.fill_(7).is_ok());
    }
    let wide = Tensor::zeros(&[4], DType::F32)?.as_strided(&[0, 1 << 40], &[1, 1 << 40], Some(0))?;
    assert!(wide.select(1, 1 << 39)?.storage_offset() >= 0);
    Ok(())
}

#[test]
fn kernels_of_the_cpu_take_only_its_memory() -> Result<()> {
    let meta = Tensor::zeros(&[1000], (DType::F32, Device::META))?;
    let expected = "Expected all tensors to be on the same device, but found at least two devices, meta and cpu!";
    let args = [(&meta).into(), Value::None];
    assert_eq!(message(op("sum").redispatch(KeySet::of(Key::CPU), &args)), expected);
    let _out = KeyGuard::exclude(KeySet::of(Key::META));
    let _in = KeyGuard::include(KeySet::of(Key::CPU));
    assert_eq!(message(meta.sum()), expected);
    assert_eq!(message(meta.add_(1)), expected);
    Ok(())
}

#[test]
fn what_a_specification_says_of_strides_is_checked() {
    let spec = |sizes: &[i64], strides: &[i64]| {
        TensorSpec::new(Dims::from_slice(sizes), DType::F32, Device::CPU).strided(Dims::from_slice(strides)).allocate()
    };
    assert!(spec(&[10, 2], &[1]).is_err());
    assert!(spec(&[10], &[-1]).is_err());
    assert!(spec(&[1 << 40, 1 << 40], &[0, 0]).is_err());
    assert_eq!(spec(&[3, 2], &[1, 3]).unwrap().strides(), [1, 3]);
}

#[test]
fn storages_only_grow_under_threads() -> Result<()> {
    for _ in 0..20 {
        let storages = (0..50).map(|_| Storage::new(Device::CPU, 16)).collect::<Result<Vec<_>>>()?;
        std::thread::scope(|s| {
            let small = s.spawn(|| storages.iter().try_for_each(|s| s.resize(2048)));
            let large = s.spawn(|| storages.iter().try_for_each(|s| s.resize(1 << 17)));
            small.join().unwrap().and(large.join().unwrap())
        })?;
        for storage in &storages {
            // Whoever came last says how much of it counts; what was there once may be asked for again without moving.
            let address = storage.data_ptr();
            storage.resize(1 << 17)?;
            assert_eq!(storage.data_ptr(), address);
        }
    }
    Ok(())
}

#[test]
fn more_parts_than_memory_holds_are_refused() -> Result<()> {
    let nothing = Tensor::zeros(&[2, 0, 3], DType::F32)?;
    for name in ["chunk", "unsafe_chunk"] {
        assert!(op(name).call(&[(&nothing).into(), (1i64 << 45).into(), 1i64.into()]).is_err(), "{name}");
    }
    Ok(())
}

#[test]
fn numbers_of_the_cpu_go_with_meta_tensors_and_nothing_else_does() -> Result<()> {
    let (meta, cpu) = (Tensor::ones(&[2, 3], (DType::F32, Device::META))?, Tensor::ones(&[2, 3], DType::F32)?);
    assert_eq!(message(meta.add(&cpu)), "Tensor on device cpu is not on the expected device meta!");
    assert_eq!(message(cpu.add(&meta)), "Tensor on device meta is not on the expected device cpu!");
    assert_eq!(
        message(cpu.add(&meta.select(0, 0)?.select(0, 0)?)),
        "Tensor on device meta is not on the expected device cpu!"
    );
    assert_eq!(meta.add(&cpu.sum()?)?.sizes(), [2, 3]);
    Ok(())
}

/// One number, expanded.
fn expanded(sizes: &[i64]) -> Tensor {
    Tensor::zeros(&[1], DType::F32).unwrap().expand(sizes).unwrap()
}

#[test]
fn sizes_that_cannot_be_counted_are_refused() {
    const OVERFLOW: &str = "numel: integer multiplication overflow";
    let one = Tensor::ones(&[1], DType::F32).unwrap();
    let column = expanded(&[1 << 40, 1]);
    let row = column.t().unwrap();
    assert_eq!(message(one.expand(&[1 << 32, 1 << 32])), OVERFLOW);
    assert_eq!(message(one.expand(&[1 << 32, 1 << 32, 0])), OVERFLOW);
    assert_eq!(message(op("broadcast_to").call(&[(&one).into(), (&[1i64 << 32, 1 << 32][..]).into()])), OVERFLOW);
    assert_eq!(message(expanded(&[1 << 62]).unfold(0, 1 << 32, 1)), OVERFLOW);
    assert_eq!(message(expanded(&[1 << 40]).unfold(0, 1 << 39, 1)), OVERFLOW);
    let long = expanded(&[1 << 40]);
    assert_ne!(message(op("linalg_vander").call(&[(&long).into(), (1i64 << 40).into()])), "");
    let indices = Tensor::zeros(&[2, 1], DType::I64).unwrap();
    let sparse = op("sparse_coo_tensor.indices_size");
    let sizes = [1i64 << 32, 1 << 32];
    assert!(message(sparse.call(&[(&indices).into(), (&one).into(), (&sizes[..]).into()])).contains("overflow"));
    for name in ["add.Tensor", "eq.Tensor", "atan2", "matmul", "lerp.Scalar", "copysign.Tensor"] {
        let args = [Value::Tensor(&column), Value::Tensor(&row), Value::Int(1)];
        let e = message(op(name).call(&args[..op(name).schema().params.len().min(3)]));
        assert_eq!(e, "Storage size calculation overflowed with sizes=[1099511627776, 1099511627776]", "{name}");
    }
    let double = |name: &str, x: Tensor, more: &[Value<'_>]| message(op(name).call(&[&[(&x).into()], more].concat()));
    let numbers = Tensor::zeros(&[1], DType::Complex64).unwrap().expand(&[1 << 62]).unwrap();
    assert_eq!(double("view_as_real", numbers, &[]), OVERFLOW);
    let wide = Tensor::zeros(&[1, 1], DType::F64).unwrap().expand(&[1 << 61, 1]).unwrap();
    assert_eq!(double("view.dtype", wide, &[DType::U8.into()]), OVERFLOW);
    let zeros = |sizes: &[i64]| message(Tensor::zeros(sizes, DType::F32));
    assert_eq!(
        zeros(&[1 << 40, 1 << 40, 0]),
        "Storage size calculation overflowed with sizes=[1099511627776, 1099511627776, 0]"
    );
    assert_eq!(zeros(&[0, 1 << 40, 1 << 40]), "Stride calculation overflowed");
    assert_eq!(zeros(&[i64::MAX, 0]), "");
}

#[test]
fn numbers_at_the_limit_are_refused() {
    const MAX: i64 = i64::MAX;
    let large = Tensor::zeros(&[MAX, 0], DType::F32).unwrap();
    let both = [large.clone(), large];
    assert_eq!(message(Tensor::cat(&both, 0)), "Trying to create tensor with negative dimension -2: [-2, 0]");
    assert_eq!(Tensor::cat(&both, 1).unwrap().sizes(), [MAX, 0]);
    let x = Tensor::ones(&[3], DType::F32).unwrap();
    for name in ["diag", "diagflat", "diag_embed"] {
        for offset in [MAX, i64::MIN, MAX - 3] {
            assert_ne!(message(op(name).call(&[(&x).into(), offset.into()])), "", "{name} {offset}");
        }
    }
    for sizes in [&[][..], &[2], &[2, 2]] {
        let x = Tensor::ones(sizes, DType::F32).unwrap();
        for size in [MAX, MAX - 1, 1 << 61] {
            let refused = message(x.nonzero_static(size, -1));
            assert_eq!(refused.is_empty(), sizes.is_empty(), "{sizes:?} {size} {refused}");
        }
    }
    let (data, h) = (Tensor::zeros(&[1, 1, 2], DType::F32).unwrap(), Tensor::zeros(&[1, 1, 2], DType::F32).unwrap());
    let weights = vec![Tensor::zeros(&[2, 2], DType::F32).unwrap(); 2];
    for layers in [MAX, 1 << 62, i64::MIN] {
        for (name, h) in
            [("rnn_tanh.input", Value::Tensor(&h)), ("lstm.input", Value::Tensors(&[h.clone(), h.clone()]))]
        {
            let switch = |on: bool| Value::Bool(on);
            let args = [
                (&data).into(),
                h,
                (&weights[..]).into(),
                switch(true),
                layers.into(),
                0.0.into(),
                switch(false),
                switch(true),
                switch(false),
            ];
            assert_ne!(message(op(name).call(&args)), "", "{name} {layers}");
        }
    }
    let with_dims = op("_sparse_coo_tensor_with_dims");
    assert_ne!(message(with_dims.call(&[MAX.into(), MAX.into(), (&[2i64][..]).into()])), "");
}

#[test]
fn windows_larger_than_a_machine_int_are_refused() {
    const NO_INT: &str = "value cannot be converted to type int without overflow";
    let x = Tensor::ones(&[2, 3, 6, 6], DType::F32).unwrap();
    let volume = x.view(&[1, 2, 3, 6, 6]).unwrap();
    let line = x.view(&[6, 6, 6]).unwrap();
    for ceil in [false, true] {
        let pool = |name: &str, x: &Tensor, kernel: i64| {
            let (kernel, pad, none): ([i64; 1], [i64; 1], [i64; 0]) = ([kernel], [0], []);
            let most =
                [x.into(), (&kernel[..]).into(), (&none[..]).into(), (&pad[..]).into(), Value::Ints(&[1]), ceil.into()];
            let mean = [x.into(), (&kernel[..]).into(), (&none[..]).into(), (&pad[..]).into(), ceil.into()];
            message(op(name).call(if name.starts_with("max") { &most[..] } else { &mean[..] }))
        };
        for (name, x) in [
            ("max_pool1d", &line),
            ("max_pool2d", &x),
            ("max_pool3d", &volume),
            ("avg_pool1d", &line),
            ("avg_pool2d", &x),
            ("avg_pool3d", &volume),
        ] {
            assert_eq!(pool(name, x, i64::MAX), NO_INT, "{name}");
            assert_eq!(pool(name, x, 1 << 31), NO_INT, "{name}");
            // What fits costs no more than its input: a window that is cut off.
            assert_eq!(pool(name, x, i64::from(i32::MAX)).is_empty(), ceil, "{name}");
        }
    }
}

#[test]
fn lists_have_the_length_that_kernels_need() {
    let on = |device: Device| {
        let t = |sizes: &[i64]| Tensor::ones(sizes, (DType::F32, device)).unwrap();
        let (x, m, image, grid, shape) = (t(&[2, 3]), t(&[2, 1]), t(&[1, 1, 2, 2]), t(&[1, 2, 2, 2]), [3i64]);
        let none = Value::None;
        let calls: [(&str, Vec<Value<'_>>, usize); 5] = [
            (
                "native_layer_norm_backward",
                vec![(&x).into(), (&x).into(), (&shape[..]).into(), (&m).into(), (&m).into(), none, none],
                3,
            ),
            (
                "native_group_norm_backward",
                vec![
                    (&image).into(),
                    (&image).into(),
                    (&m).into(),
                    (&m).into(),
                    none,
                    1i64.into(),
                    1i64.into(),
                    4i64.into(),
                    1i64.into(),
                ],
                3,
            ),
            (
                "native_batch_norm_backward",
                vec![(&x).into(), (&x).into(), none, none, none, none, none, true.into(), 0.1.into()],
                3,
            ),
            ("_fused_rms_norm_backward", vec![(&x).into(), (&x).into(), (&shape[..]).into(), (&m).into(), none], 2),
            (
                "grid_sampler_2d_backward",
                vec![(&image).into(), (&image).into(), (&grid).into(), 0i64.into(), 0i64.into(), false.into()],
                2,
            ),
        ];
        for (name, args, n) in calls {
            for mask in [&[true][..], &[true; 4], &[]] {
                let e = message(op(name).call(&[&args[..], &[mask.into()]].concat()));
                let wanted =
                    format!("Tried to convert a List with {} elements to a fixed-size array of size {n}", mask.len());
                assert_eq!(e, wanted, "{name} on {device}");
            }
        }
    };
    on(Device::CPU);
    on(Device::META);
}

/// A summary reads its ends only, whatever the tensor's size.
#[test]
fn large_tensors_print_as_summaries() {
    let row = "[0., 0., 0.,  ..., 0., 0., 0.]";
    assert_eq!(expanded(&[1 << 45]).to_string(), format!("tensor({row})"));
    assert_eq!(expanded(&[2, 1 << 45]).to_string(), format!("tensor([{row},\n        {row}])"));
    let x = Tensor::arange(1 << 12, DType::I64).unwrap().view(&[64, 64]).unwrap();
    let text = "tensor([[   0,    1,    2,  ...,   61,   62,   63],\n        [  64,   65,   66,  ...,  125,  126,  127],\n        \
                [ 128,  129,  130,  ...,  189,  190,  191],\n        ...,\n        [3904, 3905, 3906,  ..., 3965, 3966, 3967],\n        \
                [3968, 3969, 3970,  ..., 4029, 4030, 4031],\n        [4032, 4033, 4034,  ..., 4093, 4094, 4095]])";
    assert_eq!(x.to_string(), text);
}

#[test]
fn an_operator_without_a_schema_is_an_error() {
    static GARBAGE: Op = Op::new("garbage", Body::Composite(|_, _, _| Ok(Outputs::None)));
    let x = pair(DType::F32);
    for args in [&[][..], &[(&x).into()]] {
        assert!(message(GARBAGE.call(args)).starts_with("schema: expected ( at position 7"));
    }
}
