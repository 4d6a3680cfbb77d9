//! The functions behind `Float`, from the standard library.
macro_rules! unary { ($t:ident: $($name:ident = $std:ident)*) => { $(
  #[inline(always)] pub fn $name<I: super::super::Isa>(x: $t) -> $t { <$t>::$std(x) } )* } }
macro_rules! both { ($t:ident) => { pub mod $t {
  unary! { $t: exp=exp exp2=exp2 expm1=exp_m1 log=ln log2=log2 log10=log10 log1p=ln_1p sin=sin cos=cos tan=tan
    sin_common=sin cos_common=cos tan_common=tan asin=asin acos=acos atan=atan sinh=sinh cosh=cosh tanh=tanh asinh=asinh acosh=acosh atanh=atanh }
  #[inline(always)] pub fn sigmoid<I: super::super::Isa>(x: $t) -> $t { 1.0/(1.0+(-x).exp()) }
  #[inline(always)] pub fn pow<I: super::super::Isa>(x: $t, y: $t) -> $t { x.powf(y) }
  #[inline(always)] pub fn atan2<I: super::super::Isa>(x: $t, y: $t) -> $t { x.atan2(y) }
}}}
both! { f32 }
both! { f64 }
