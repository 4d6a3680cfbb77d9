//! `&a + &b` and the like. They panic where the method would give an error, with the same message, as the standard
//! library's operators do; call the method (`a.add(&b)`) to handle errors.

use crate::{Operand, Result, Scalar, Tensor};
use std::ops;

#[track_caller]
fn expect(r: Result<Tensor>) -> Tensor {
    match r {
        Ok(t) => t,
        Err(e) => panic!("{e}"),
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident, $assign:ident $assign_method:ident, $inplace:ident;)*) => { $(
        operators!(@pair $trait $method, &Tensor, &Tensor, |b| Operand::Tensor(b));
        operators!(@pair $trait $method, Tensor, &Tensor, |b| Operand::Tensor(b));
        operators!(@pair $trait $method, &Tensor, Tensor, |b| Operand::Tensor(&b));
        operators!(@pair $trait $method, Tensor, Tensor, |b| Operand::Tensor(&b));
        operators!(@pair $trait $method, &Tensor, f64, |b| Operand::Scalar(Scalar::Float(b)));
        operators!(@pair $trait $method, Tensor, f64, |b| Operand::Scalar(Scalar::Float(b)));
        operators!(@pair $trait $method, &Tensor, i64, |b| Operand::Scalar(Scalar::Int(b)));
        operators!(@pair $trait $method, Tensor, i64, |b| Operand::Scalar(Scalar::Int(b)));
        impl ops::$assign<&Tensor> for Tensor {
            #[track_caller]
            fn $assign_method(&mut self, other: &Tensor) {
                expect(Tensor::$inplace(self, other));
            }
        }
        impl ops::$assign<f64> for Tensor {
            #[track_caller]
            fn $assign_method(&mut self, other: f64) {
                expect(Tensor::$inplace(self, other));
            }
        }
    )* };
    (@pair $trait:ident $method:ident, $a:ty, $b:ty, |$x:ident| $e:expr) => {
        impl ops::$trait<$b> for $a {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, $x: $b) -> Tensor {
                expect(Tensor::$method(&self, $e))
            }
        }
    };
}
operators! {
    Add add, AddAssign add_assign, add_;
    Sub sub, SubAssign sub_assign, sub_;
    Mul mul, MulAssign mul_assign, mul_;
    Div div, DivAssign div_assign, div_;
}

macro_rules! number_first {
    ($($trait:ident $method:ident |$x:ident, $t:ident| $e:expr;)*) => { $(
        impl ops::$trait<&Tensor> for f64 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, $t: &Tensor) -> Tensor {
                let $x = self;
                expect($e)
            }
        }
        impl ops::$trait<Tensor> for f64 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, t: Tensor) -> Tensor {
                ops::$trait::$method(self, &t)
            }
        }
    )* };
}
number_first! {
    Add add |x, t| t.add(x);
    Sub sub |x, t| t.rsub(x);
    Mul mul |x, t| t.mul(x);
    Div div |x, t| t.reciprocal().and_then(|r| r.mul(x));
}

impl ops::Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        expect(Tensor::neg(self))
    }
}
impl ops::Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        expect(Tensor::neg(&self))
    }
}
