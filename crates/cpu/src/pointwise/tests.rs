//! Strips of two forms, by chunks and by what chunks leave, into an output of their own and in place.

use super::{MAX_OPERANDS, MAX_PARAMS, Map, Operand, StripArgs, broadcast, strip};
use crate::math::{Isa, Level};
use flambeau_base::{Bool, DType, Element, Scalar};

/// Of elements below 16 the double, of others what they are. The form for chosen elements is right for those only.
struct Doubled;

impl<T: Element> Map<T, 1> for Doubled {
    type Out = T;
    const CHOICE: bool = true;
    fn map<I: Isa>([x]: [T; 1], _: &[T; MAX_PARAMS]) -> T {
        if x.to_f64() < 16.0 { T::from_f64(2.0 * x.to_f64()) } else { x }
    }
    fn chosen([x]: [T; 1], _: &[T; MAX_PARAMS]) -> bool {
        x.to_f64() < 16.0
    }
    fn map_chosen<I: Isa>([x]: [T; 1], _: &[T; MAX_PARAMS]) -> T {
        T::from_f64(2.0 * x.to_f64())
    }
}

/// Whether [`Doubled`] would double it.
struct Below;

impl<T: Element> Map<T, 1> for Below {
    type Out = Bool;
    const CHOICE: bool = true;
    fn map<I: Isa>([x]: [T; 1], _: &[T; MAX_PARAMS]) -> Bool {
        (x.to_f64() < 16.0).into()
    }
    fn chosen([x]: [T; 1], _: &[T; MAX_PARAMS]) -> bool {
        x.to_f64() < 16.0
    }
    fn map_chosen<I: Isa>(_: [T; 1], _: &[T; MAX_PARAMS]) -> Bool {
        true.into()
    }
}

/// `N` elements of a cache line's alignment, and as many more.
#[repr(C, align(64))]
struct Line<T>([T; 600]);

/// What the strip of `M` at `level` makes of `x`, written `shift` elements behind a line's start, over `x` itself if `in_place`.
fn run<M: Map<T, 1>, T: Element>(level: Level, x: &[T], shift: usize, [in_place, streams]: [bool; 2]) -> Vec<M::Out> {
    let mut input = Line([T::default(); 600]);
    input.0[shift..shift + x.len()].copy_from_slice(x);
    let mut output = Line([M::Out::default(); 600]);
    let from: *mut u8 = input.0[shift..].as_mut_ptr().cast();
    let to = if in_place { from } else { output.0[shift..].as_mut_ptr().cast() };
    let args = StripArgs {
        data: [to, from, from, from, from],
        strides: std::array::from_fn(|k| if k == 0 { size_of::<M::Out>() as isize } else { size_of::<T>() as isize }),
        n: x.len(),
        rows: 1,
        row_strides: [0; MAX_OPERANDS],
        streams,
        params: [Scalar::Int(0); MAX_PARAMS],
    };
    // SAFETY: both have as many elements; in place, an element's result is of its dtype.
    unsafe { (strip::<M, T, 1>(level).run)(args) };
    // SAFETY: results were written there, or defaults of the same type.
    unsafe { std::slice::from_raw_parts(to as *const M::Out, x.len()) }.to_vec()
}

/// Every number of elements, with elements of the rarer form nowhere, in the middle and at the end.
fn check<T: Element>() {
    for level in Level::available() {
        for n in (0..140usize).chain([256, 257, 511]) {
            for rare in [n, n / 2, n.saturating_sub(1)] {
                let value = |i: usize| if i == rare { 20 } else { (i * 7) % 16 };
                let x: Vec<T> = (0..n).map(|i| T::from_f64(value(i) as f64)).collect();
                let wanted: Vec<f64> = (0..n).map(value).map(|v| if v < 16 { 2 * v } else { v } as f64).collect();
                for (shift, in_place, streams) in [
                    (0, false, false),
                    (1, false, false),
                    (0, true, false),
                    (1, true, false),
                    (0, false, true),
                    (1, false, true),
                ] {
                    let at = format!("{} at {level:?}: {n}, {rare}, {shift} {in_place} {streams}", T::DTYPE);
                    let got = run::<Doubled, T>(level, &x, shift, [in_place, streams]);
                    assert_eq!(got.iter().map(|v| v.to_f64()).collect::<Vec<_>>(), wanted, "{at}");
                    if !in_place {
                        let got = run::<Below, T>(level, &x, shift, [false, streams]);
                        assert!(got.iter().enumerate().all(|(i, b)| b.get() == (i != rare)), "{at}");
                    }
                }
            }
        }
    }
}

#[test]
fn two_forms() {
    check::<f32>();
    check::<f64>();
    check::<u8>();
    check::<i64>();
    check::<flambeau_base::f16>();
}

/// A broadcast operand of another dtype, in any order of its dims and backwards, is converted to what it was.
#[test]
fn broadcast_operands_are_converted_once() {
    let elements: Vec<i16> = (0..6 * 7 * 5).map(|i| i * 31 % 97 - 40).collect();
    let sizes = [6, 7, 200, 5];
    for [a, b, c] in [[35, 5, 1], [1, 6, 42], [5, 30, 1], [-35, 5, -1], [0, 5, 1], [35, 0, 0], [0, 0, 1], [0, 0, 0]] {
        let strides = [a * 2, b * 2, 0, c * 2];
        let first = [(a, 6), (b, 7), (c, 5)].iter().map(|&(s, n)| if s < 0 { -s * (n - 1) } else { 0 }).sum::<isize>();
        let data = elements.as_ptr().wrapping_offset(first).cast_mut().cast();
        let operand = Operand { data, strides: &strides, dtype: DType::I16 };
        // SAFETY: the strides stay inside the elements.
        let converted = unsafe { broadcast::Converted::of(&operand, DType::F32, &sizes) };
        let mut list = [const { None }; MAX_OPERANDS];
        list[0] = converted;
        let replaced = broadcast::replaced(&[operand], &mut list);
        assert_eq!(replaced[0].dtype, DType::F32);
        for (i, j, k, l) in (0..6).flat_map(|i| (0..7).flat_map(move |j| (0..5).map(move |l| (i, j, 3, l)))) {
            let at = |o: &Operand<'_>| -> isize { [i, j, k, l].iter().zip(o.strides).map(|(i, s)| i * s).sum() };
            let wanted = elements[(first + at(&operand) / 2) as usize] as f32;
            // SAFETY: an element of the copy.
            let found = unsafe { replaced[0].data.offset(at(&replaced[0])).cast::<f32>().read() };
            assert_eq!(found, wanted, "{strides:?} at {:?}", [i, j, k, l]);
        }
    }
}
