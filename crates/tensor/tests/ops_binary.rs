//! Operators of two and three operands, and masks: values and messages as PyTorch 2.13 gives them.

#![allow(clippy::approx_constant, clippy::cloned_ref_to_slice_refs, clippy::excessive_precision)]

use flambeau::{DType, Result, Tensor, bf16, f16};

fn f(x: &[f32]) -> Tensor {
    Tensor::from_slice(x).unwrap()
}
fn i(x: &[i64]) -> Tensor {
    Tensor::from_slice(x).unwrap()
}
fn mask(x: &[bool]) -> Tensor {
    Tensor::from_slice(&x.iter().map(|&b| b as u8).collect::<Vec<_>>()).unwrap().to_dtype(DType::Bool).unwrap()
}
fn floats(t: &Tensor) -> Vec<f32> {
    t.to_dtype(DType::F32).unwrap().to_vec().unwrap()
}
fn ints(t: &Tensor) -> Vec<i64> {
    t.to_dtype(DType::I64).unwrap().to_vec().unwrap()
}
fn message(r: Result<Tensor>) -> String {
    r.err().map_or(String::new(), |e| e.message().to_string())
}
fn leaf(x: &[f32]) -> Tensor {
    f(x).requires_grad_(true).unwrap()
}
fn grad(t: &Tensor) -> Vec<f32> {
    floats(&t.grad().unwrap())
}

#[test]
fn powers() {
    assert_eq!(ints(&i(&[3, -4]).pow(&i(&[3, -4])).unwrap()), [27, 0]);
    assert_eq!(floats(&i(&[3, -4]).pow(2.0).unwrap()), [9.0, 16.0]);
    assert_eq!(ints(&i(&[3, -4]).pow(2).unwrap()), [9, 16]);
    assert!(message(i(&[3]).pow(-1)).contains("negative integer powers"));
    let x = leaf(&[0.0, 2.0, -3.0]);
    x.pow(0).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [0.0; 3]);
    let (x, e) = (leaf(&[0.0, 2.0]), leaf(&[0.0, 3.0]));
    x.pow(&e).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [0.0, 12.0]);
    assert_eq!(grad(&e), [0.0, 8.0 * 2f32.ln()]);
    assert_eq!(f(&[2.0]).float_power(3).unwrap().dtype(), DType::F64);
    assert_eq!(floats(&f(&[1.5, -2.0]).ldexp(&i(&[3, -4])).unwrap()), [12.0, -0.125]);
}

#[test]
fn divisions() {
    let (a, b) = (i(&[7, -7, 7, -7]), i(&[2, 2, -2, -2]));
    assert_eq!(ints(&a.floor_divide(&b).unwrap()), [3, -4, -4, 3]);
    assert_eq!(ints(&a.div_mode(&b, Some("trunc")).unwrap()), [3, -3, -3, 3]);
    assert_eq!(ints(&a.remainder(&b).unwrap()), [1, 1, -1, -1]);
    assert_eq!(ints(&a.fmod(&b).unwrap()), [1, -1, 1, -1]);
    assert_eq!(floats(&a.div_mode(&b, None).unwrap()), [3.5, -3.5, -3.5, 3.5]);
    for r in [a.remainder(0), a.fmod(&i(&[1, 0, 1, 1])), a.floor_divide_(0), a.div_mode(0, Some("trunc"))] {
        assert_eq!(message(r), "ZeroDivisionError");
    }
    assert_eq!(ints(&a), [7, -7, 7, -7]);
    assert_eq!(Tensor::zeros(&[0], DType::I64).unwrap().remainder(0).unwrap().numel(), 0);
    assert!(message(a.div_mode(2, Some("up"))).contains("found 'up'"));
    let (x, y) = (leaf(&[7.0]), leaf(&[2.0]));
    x.remainder(&y).unwrap().backward().unwrap();
    assert_eq!((grad(&x), grad(&y)), (vec![1.0], vec![-3.0]));
    let x = leaf(&[7.0]);
    x.div_mode(2, Some("floor")).unwrap().backward().unwrap();
    assert_eq!(grad(&x), [0.0]);
}

#[test]
fn extremes_split_ties() {
    let (x, y) = (leaf(&[1.0, 2.0, 3.0]), leaf(&[1.0, 3.0, 2.0]));
    let m = x.maximum(&y).unwrap();
    assert_eq!(floats(&m), [1.0, 3.0, 3.0]);
    m.sum().unwrap().backward().unwrap();
    assert_eq!((grad(&x), grad(&y)), (vec![0.5, 0.0, 1.0], vec![0.5, 1.0, 0.0]));
    let nan = f(&[f32::NAN]);
    assert!(floats(&nan.minimum(1.0).unwrap())[0].is_nan());
    assert_eq!(floats(&nan.fmin(&f(&[1.0])).unwrap()), [1.0]);
}

#[test]
fn clamps() {
    let x = leaf(&[-1.0, 0.0, 0.5, 1.0, 2.0]);
    let y = x.clamp(0, 1).unwrap();
    assert_eq!(floats(&y), [0.0, 0.0, 0.5, 1.0, 1.0]);
    y.sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [0.0, 1.0, 1.0, 1.0, 0.0]);
    assert_eq!(floats(&i(&[3, -4]).clamp(0.5, 2.5).unwrap()), [2.5, 0.5]);
    assert_eq!(floats(&f(&[1.5, -2.0]).clamp(2, 1).unwrap()), [1.0, 1.0]);
    let z = f(&[-1.0, 5.0]);
    z.clamp_(0, &f(&[2.0, 3.0])).unwrap();
    assert_eq!(floats(&z), [0.0, 3.0]);
    let long = Tensor::zeros(&[200], DType::F32).unwrap();
    assert_eq!(floats(&long.clamp(1, 2).unwrap()), [1.0; 200]);
}

#[test]
fn where_promotes_and_broadcasts() {
    let c = mask(&[true, false]);
    assert_eq!(ints(&c.where_(1, 2).unwrap()), [1, 2]);
    assert_eq!(floats(&c.where_(&i(&[3, 4]), 1.5).unwrap()), [3.0, 1.5]);
    let columns = f(&[1.0, 2.0, 3.0]).reshape(&[3, 1]).unwrap();
    assert_eq!(floats(&c.where_(&columns, &f(&[-1.0, -2.0])).unwrap()), [1.0, -2.0, 2.0, -2.0, 3.0, -2.0]);
    assert!(message(i(&[1, 0]).where_(1, 2)).contains("dtype Long"));
    let (x, y) = (leaf(&[1.0, 2.0]), leaf(&[3.0]));
    c.where_(&x, &y).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!((grad(&x), grad(&y)), (vec![1.0, 0.0], vec![1.0]));
}

#[test]
fn masks() {
    let (x, m) = (f(&[1.0, 2.0, 3.0]), mask(&[true, false, true]));
    assert_eq!(floats(&x.masked_fill(&m, 9).unwrap()), [9.0, 2.0, 9.0]);
    assert_eq!(floats(&x.masked_select(&m).unwrap()), [1.0, 3.0]);
    assert_eq!(floats(&x.masked_scatter(&m, &f(&[7.0, 8.0])).unwrap()), [7.0, 2.0, 8.0]);
    assert!(message(x.masked_scatter_(&m, &f(&[7.0]))).contains("Number of elements of source"));
    x.masked_fill_(&m, 0).unwrap();
    assert_eq!(floats(&x), [0.0, 2.0, 0.0]);
    let wide = m.expand(&[2, 3]).unwrap();
    assert_eq!(x.masked_fill(&wide, 1).unwrap().sizes(), [2, 3]);
    assert!(message(x.masked_fill_(&wide, 1)).contains("doesn't match the broadcast shape"));
    assert!(message(x.masked_fill(&i(&[1, 0, 1]), 1)).contains("boolean masks, but got mask with dtype int64_t"));
    let u = Tensor::from_slice(&[1u8]).unwrap();
    assert!(message(u.masked_fill(&mask(&[true]), 300)).contains("uint8_t without overflow"));
    let n = f(&[0.0, 1.0, 2.0, 0.0]).reshape(&[2, 2]).unwrap().nonzero().unwrap();
    assert_eq!((n.sizes(), ints(&n)), (&[2i64, 2][..], vec![0, 1, 1, 0]));
    let (x, s) = (leaf(&[1.0, 2.0, 3.0]), leaf(&[4.0, 5.0, 6.0]));
    let y = x.masked_scatter(&m, &s).unwrap();
    y.mul(&f(&[1.0, 2.0, 3.0])).unwrap().masked_select(&m).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!((grad(&x), grad(&s)), (vec![0.0; 3], vec![1.0, 3.0, 0.0]));
}

#[test]
fn bits_and_blends() {
    assert_eq!(ints(&i(&[6, 5]).bitwise_and(3).unwrap()), [2, 1]);
    assert_eq!(ints(&i(&[1, -8]).bitwise_left_shift(2).unwrap()), [4, -32]);
    assert_eq!(ints(&i(&[12, 0]).gcd(&i(&[-18, -4])).unwrap()), [6, 4]);
    let (a, b) = (f(&[0.0, 1.0]), f(&[10.0, 3.0]));
    assert_eq!(floats(&a.lerp(&b, 0.25).unwrap()), [2.5, 1.5]);
    assert_eq!(floats(&a.addcmul(&b, &b, 2).unwrap()), [200.0, 19.0]);
    assert_eq!(floats(&a.addcdiv(&b, &f(&[4.0, 3.0]), 2).unwrap()), [5.0, 3.0]);
    assert!(message(a.addcdiv(&i(&[1]), &i(&[1]), 1)).starts_with("Integer division with addcdiv"));
    assert_eq!(floats(&f(&[0.0, 2.0]).xlogy(&f(&[0.0, 1.0])).unwrap()), [0.0, 0.0]);
    assert_eq!(floats(&f(&[0.0, -2.0, 3.0]).heaviside(&f(&[0.5])).unwrap()), [0.5, 0.0, 1.0]);
}

#[test]
fn the_next_half() {
    let step = |x: f32, y: f32| {
        let h = |v: f32| f(&[v]).to_dtype(DType::F16).unwrap();
        h(x).nextafter(&h(y)).unwrap().to_vec::<f16>().unwrap()[0].to_bits()
    };
    let bits = |x: f32| f16::from_f32(x).to_bits();
    assert_eq!(step(1.0, 2.0), bits(1.0) + 1);
    assert_eq!(step(1.0, 0.0), bits(1.0) - 1);
    assert_eq!(step(-1.0, -2.0), bits(-1.0) + 1);
    assert_eq!(step(-1.0, 0.0), bits(-1.0) - 1);
    assert_eq!((step(0.0, 1.0), step(0.0, -1.0), step(1.0, 1.0)), (1, 0x8001, bits(1.0)));
    let b = f(&[1.0]).to_dtype(DType::BF16).unwrap();
    assert_eq!(b.nextafter(&b.add(1).unwrap()).unwrap().to_vec::<bf16>().unwrap()[0].to_bits(), 0x3f81);
}

#[test]
fn few_elements_in_place() {
    let x = f(&[1.0, 2.0, 3.0, 4.0]);
    let (version, at) = (x.version(), x.data_ptr());
    assert!(x.add_(&f(&[1.0; 4])).unwrap().is_same(&x) && x.data_ptr() == at);
    assert_eq!((floats(&x), x.version()), (vec![2.0, 3.0, 4.0, 5.0], version + 1));
    // Itself, and another tensor of the same elements.
    x.mul_(&x).unwrap();
    x.sub_(&x.view(&[4]).unwrap()).unwrap();
    assert_eq!(floats(&x), [0.0; 4]);
    // Numbers, results of another dtype, and one that does not fit.
    x.add_(1.5).unwrap();
    assert_eq!(floats(&x), [1.5; 4]);
    x.gt_(1.0).unwrap();
    assert_eq!((x.dtype(), floats(&x)), (DType::F32, vec![1.0; 4]));
    assert!(message(i(&[1]).mul_(0.5)).contains("can't be cast"));
    // Other elements of the same memory: apart from those that are written, among them, and crosswise.
    let x = f(&[1.0, 2.0, 3.0, 4.0]);
    x.narrow(0, 0, 2).unwrap().add_(&x.narrow(0, 2, 2).unwrap()).unwrap();
    assert_eq!(floats(&x), [4.0, 6.0, 3.0, 4.0]);
    let shifted = x.narrow(0, 1, 3).unwrap().add_(&x.narrow(0, 0, 3).unwrap());
    assert!(message(shifted).contains("some elements of the input tensor and the written-to tensor"));
    let square = x.view(&[2, 2]).unwrap();
    assert!(message(square.add_(&square.t().unwrap())).contains("some elements of the input tensor"));
    assert_eq!(floats(&x), [4.0, 6.0, 3.0, 4.0]);
    // What autograd has to know of.
    let (w, y) = (leaf(&[2.0]), leaf(&[3.0]).mul(1.0).unwrap());
    y.mul_(&w).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!((floats(&y), grad(&w)), (vec![6.0], vec![3.0]));
}
