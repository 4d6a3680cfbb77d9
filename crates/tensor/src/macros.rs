//! The macros operators are written with. They expand to static table entries and one-line shims; logic lives in
//! ordinary functions.
//!
//! `op!` is the general form; `unary!`, `binary!` and `compare!` are families of pointwise operators, whose schemas
//! follow from their names; `strips!` writes a pointwise operator's expression once for each group of dtypes.

/// Declares one operator: a module of its name with the statics `OP` (and one per further form) and `ALL`, and methods
/// of `Tensor`.
///
/// ```ignore
/// op! {
///     /// The documentation, of the operator and of the methods.
///     flip: "flip(Tensor self, int[] dims) -> Tensor", Out OUT: "flip.out(Tensor self, int[] dims, *, Tensor(a!) out) -> Tensor(a!)";
///     Body::Structured { plan: flip_plan, run: flip_run };      // any `Body`
///     derivative: backward! { self_(g, dims: Dims) => g.flip(&dims)? };   // builder methods of `Op`
///     forward: Forward::Linear;
///     differentiable_results: 1;                                // of several results, if only the first ones are
///     samples: |m| vec![sample![m.any(&[2, 3]), vec![0i64]]];
///     out_rule: OutRule::EXACT;                                 // which tensors `out=` may be, if not any that can hold it
///     fn flip(&self, dims: &[i64]) -> Tensor [self, dims];       // method: signature, result, arguments in schema order
/// }
/// ```
/// A method may name another static with `in INPLACE`; `out fn` makes one that writes into `out: &mut Tensor`.
#[macro_export]
macro_rules! op {
    (
        $(#[doc = $doc:expr])*
        $name:ident: $schema:expr $(, $form:ident $variant:ident: $variant_schema:expr)*;
        $body:expr;
        $(derivative: $derivative:expr;)?
        $(forward: $forward:expr;)?
        $(differentiable_results: $differentiable_results:expr;)?
        $(samples: $samples:expr;)?
        $(ulp: $ulp:expr;)?
        $(out_rule: $out_rule:expr;)?
        $(fn $method:ident $sig:tt -> $ret:ty [$($arg:expr),* $(,)?] $(in $which:ident)?;)*
        $(out fn $out_method:ident $out_sig:tt [$($out_arg:expr),* $(,)?] in $out_which:ident;)*
    ) => {
        $(#[doc = $doc])*
        pub mod $name {
            #[allow(unused_imports)]
            use super::*;
            /// The operator.
            pub static OP: $crate::Op = $crate::with_samples!(
                $crate::Op::new($schema, $body)
                    .doc(concat!($($doc, "\n"),*))
                    .at(file!(), line!())
                    $(.derivative($derivative))?
                    $(.forward($forward))?
                    $(.differentiable_results($differentiable_results))?
                    $(.ulp($ulp))?
                    $(.out_rule($out_rule))?
                $(, $samples)?
            );
            $(
                /// A further form.
                pub static $variant: $crate::Op =
                    $crate::Op::new($variant_schema, $crate::Body::Variant($crate::Form::$form, &OP)).at(file!(), line!());
            )*
            /// All forms.
            pub static ALL: &[&$crate::Op] = &[&OP $(, &$variant)*];
        }
        $crate::op! { @methods [$(#[doc = $doc])*] $name
            $(fn $method $sig -> $ret [$($arg),*] $(in $which)?;)*
            $(out fn $out_method $out_sig [$($out_arg),*] in $out_which;)*
        }
    };
    (@methods $docs:tt $name:ident) => {};
    (@methods $docs:tt $name:ident
        $(fn $method:ident $sig:tt -> $ret:ty [$($arg:expr),*] $(in $which:ident)?;)*
        $(out fn $out_method:ident $out_sig:tt [$($out_arg:expr),*] in $out_which:ident;)*
    ) => {
        #[allow(clippy::should_implement_trait, clippy::wrong_self_convention)]
        impl $crate::Tensor {
            $( $crate::op!(@method $name $docs $method $sig $ret [$($arg),*] $($which)?); )*
            $( $crate::op!(@out $name $docs $out_method $out_sig [$($out_arg),*] $out_which); )*
        }
    };
    (@method $name:ident [$($doc:tt)*] $method:ident (&$self:ident $(, $a:ident: $t:ty)* $(,)?) $ret:ty [$($arg:expr),*] $($which:ident)?) => {
        $($doc)*
        ///
        /// # Errors
        /// When the arguments do not fit the operator, or memory runs out.
        pub fn $method(&$self $(, $a: $t)*) -> $crate::Result<$ret> {
            $crate::value::FromOutputs::from_outputs(
                $crate::op!(@static $name $($which)?).call(&[$($crate::Value::from($arg)),*])?)
        }
    };
    (@method $name:ident [$($doc:tt)*] $method:ident ($($a:ident: $t:ty),* $(,)?) $ret:ty [$($arg:expr),*] $($which:ident)?) => {
        $($doc)*
        ///
        /// # Errors
        /// When the arguments do not fit the operator, or memory runs out.
        pub fn $method($($a: $t),*) -> $crate::Result<$ret> {
            $crate::value::FromOutputs::from_outputs(
                $crate::op!(@static $name $($which)?).call(&[$($crate::Value::from($arg)),*])?)
        }
    };
    (@out $name:ident [$($doc:tt)*] $method:ident (&$self:ident $(, $a:ident: $t:ty)* $(,)?) [$($arg:expr),*] $which:ident) => {
        $($doc)*
        ///
        /// The result is written to `out`, which takes its shape.
        ///
        /// # Errors
        /// When the arguments do not fit the operator, the result cannot be cast to `out`'s dtype, or memory runs out.
        pub fn $method(&$self $(, $a: $t)*, out: &mut $crate::Tensor) -> $crate::Result<()> {
            let result = $name::$which.call(&[$($crate::Value::from($arg),)* $crate::Value::Tensor(out)])?.one()?;
            if !result.is_same(out) { *out = result; }
            Ok(())
        }
    };
    (@static $name:ident) => { $name::OP };
    (@static $name:ident $which:ident) => { $name::$which };
}

/// Wraps an ordinary function as a kernel: `kernel!(softmax_cpu(x, dim, dtype))` takes that many arguments out of their
/// boxed form. The function returns a `Result` of anything that [`Outputs`](crate::Outputs) is made from.
#[macro_export]
macro_rules! kernel {
    ($function:path; $($arg:ident),* $(,)?) => {
        |op: &'static $crate::Op, _keys: $crate::KeySet, args: &[$crate::Value<'_>]| -> $crate::Result<$crate::Outputs> {
            let mut _next = 0usize;
            $(
                let $arg = $crate::value::Bind::bind(Some(op), args, &mut _next)?;
            )*
            $function($($arg),*).map($crate::Outputs::from)
        }
    };
}

/// Wraps an ordinary function as a structured operator's shape rule: it returns a [`TensorSpec`](crate::TensorSpec) or
/// several.
#[macro_export]
macro_rules! plan {
    ($function:path; $($arg:ident),* $(,)?) => {
        |args: &[$crate::Value<'_>]| -> $crate::Result<$crate::Plan> {
            let mut _next = 0usize;
            $(
                let $arg = $crate::value::Bind::bind(None, args, &mut _next)?;
            )*
            $function($($arg),*).map($crate::value::IntoPlan::into_plan)
        }
    };
}

/// Wraps an ordinary function as a structured operator's CPU kernel: its last parameter is the outputs, `&[Tensor]`.
#[macro_export]
macro_rules! run {
    ($function:path; $($arg:ident),* $(,)?) => {
        |args: &[$crate::Value<'_>], outs: &[$crate::Tensor]| -> $crate::Result<()> {
            let mut _next = 0usize;
            $(
                let $arg = $crate::value::Bind::bind(None, args, &mut _next)?;
            )*
            $function($($arg,)* outs)
        }
    };
}

/// A pointwise expression for each group of dtypes, as the function that finds a dtype's strip. Groups: `bools`, `ints`
/// (`T: Integer`), `floats` (`T: Float`: f32 and f64; halves are computed in f32), `complexes` (`Complex<R>`, `R:
/// Float`), `numbers` (ints, floats and complexes, `T: Number`). `I` is the instruction set. `|x, y; p|` also binds the
/// scalar parameters, converted to `T`. `-> Bool` (or another type) says what it gives, if not its input's type.
///
/// `floats |x| => fast, if condition, else any;` gives a faster form for blocks whose elements all meet a condition (or a
/// form for a parameter's value), so that each loop vectorises; see `flambeau_cpu::pointwise::Map::CHOICE`. With `halves
/// form,` after the condition it has one for `bfloat16`, which needs less exact ones; see `Map::HALVES`. With `vectors form,`
/// it has one for arrays of `C` elements, or for none; see `Map::map_vectors`. `floats costly |x, y|` says that an expression
/// takes too long for loops of its own over numbers to pay; see `Map::COSTLY`; `tensors`, that operands are hardly ever
/// numbers; see `Map::NUMBERS`; `light`, that it is few operations; see `Map::LIGHT`; `rare`, that it is not worth compiling
/// for AVX-512, and `scalar`, that no vectors come of it; see `Map::HIGHEST`. `ints wrapping` and `numbers wrapping` say that
/// integers with and without signs give the same bits, so that one strip does.
#[macro_export]
macro_rules! strips {
    ($($group:ident $($how:ident)* $(-> $out:ty)? |$($x:ident),+ $(; $p:ident)?| $(=> $fast:expr, if $cond:expr, $(halves $half:expr,)? $(vectors $vectors:expr,)? else)? $e:expr;)*) => {
        |dtype: $crate::DType, level: ::flambeau_cpu::math::Level| -> Option<::flambeau_cpu::pointwise::Strip> {
            let _ = level;
            $( $crate::strips!(@$group dtype, level, [$($how)*], [$($out)?], [$($x),+], [$($p)?], [$($([$vectors])? $fast, $cond $(, $half)?)?], $e); )*
            None
        }
    };
    (@numbers $dtype:ident, $level:ident, [wrapping $($how:ident)*], $($rest:tt)*) => {
        $crate::strips!(@impl [T: ::flambeau_cpu::math::Number] T, [signed, reals, complexes], $dtype, $level, [wrapping $($how)*], $($rest)*);
    };
    (@ints $dtype:ident, $level:ident, [wrapping], $($rest:tt)*) => {
        $crate::strips!(@impl [T: ::flambeau_cpu::math::Integer] T, [signed], $dtype, $level, [wrapping], $($rest)*);
    };
    (@numbers $($rest:tt)*) => {
        $crate::strips!(@impl [T: ::flambeau_cpu::math::Number] T, [ints, reals, complexes], $($rest)*);
    };
    (@ints $($rest:tt)*) => { $crate::strips!(@impl [T: ::flambeau_cpu::math::Integer] T, [ints], $($rest)*); };
    (@floats $($rest:tt)*) => { $crate::strips!(@impl [T: ::flambeau_cpu::math::Float] T, [reals], $($rest)*); };
    (@bools $($rest:tt)*) => { $crate::strips!(@impl [] $crate::Bool, [bool], $($rest)*); };
    (@complexes $($rest:tt)*) => {
        $crate::strips!(@impl [R: ::flambeau_cpu::math::Float] $crate::Complex<R>, [complexes], $($rest)*);
    };
    (@impl [$($param:tt)*] $t:ty, [$($groups:ident),+], $dtype:ident, $level:ident, $how:tt, [$($out:ty)?], [$($x:ident),+], [$($p:ident)?], $choice:tt, $e:expr) => {{
        struct K;
        impl<$($param)*> ::flambeau_cpu::pointwise::Map<$t, { $crate::strips!(@count $($x)+) }> for K
        where
            $t: ::flambeau_base::Element + ::flambeau_cpu::math::Number,
        {
            type Out = $crate::strips!(@out $t, $($out)?);
            const COSTLY: bool = $crate::strips!(@costly $how);
            const NUMBERS: bool = $crate::strips!(@numbered $how);
            const LIGHT: bool = $crate::strips!(@light $how);
            const HIGHEST: ::flambeau_cpu::math::Level = $crate::strips!(@highest $how);
            const PARAMS: bool = $crate::strips!(@params [$($p)?]);
            $crate::strips!(@map map, $t, [$($x),+], [$($p)?], $e);
            $crate::strips!(@choice $t, [$($x),+], [$($p)?], $choice);
        }
        let dtype = $crate::strips!(@dtype $dtype, $how);
        let found = ::flambeau_base::dispatch!(dtype, E in [$($groups),+] => {
            Some(::flambeau_cpu::pointwise::strip::<K, E, { $crate::strips!(@count $($x)+) }>($level))
        }; else None);
        if let Some(found) = found {
            return Some(found.of_bits(dtype, $dtype));
        }
    }};
    (@params []) => { false };
    (@params [$p:ident]) => { true };
    (@costly [costly $($how:ident)*]) => { true };
    (@costly [$first:ident $($how:ident)*]) => { $crate::strips!(@costly [$($how)*]) };
    (@costly []) => { false };
    (@light [light $($how:ident)*]) => { true };
    (@light [$first:ident $($how:ident)*]) => { $crate::strips!(@light [$($how)*]) };
    (@light []) => { false };
    (@numbered [tensors $($how:ident)*]) => { false };
    (@numbered [$first:ident $($how:ident)*]) => { $crate::strips!(@numbered [$($how)*]) };
    (@numbered []) => { true };
    (@highest [rare]) => { ::flambeau_cpu::math::Level::Avx2 };
    (@highest [scalar]) => { ::flambeau_cpu::math::Level::Baseline };
    (@highest [wrapping $($how:ident)*]) => { $crate::strips!(@highest [$($how)*]) };
    (@highest [costly $($how:ident)*]) => { $crate::strips!(@highest [$($how)*]) };
    (@highest [light $($how:ident)*]) => { $crate::strips!(@highest [$($how)*]) };
    (@highest [tensors $($how:ident)*]) => { $crate::strips!(@highest [$($how)*]) };
    (@highest []) => { ::flambeau_cpu::math::Level::Avx512 };
    (@dtype $dtype:ident, [wrapping $($how:ident)*]) => { $dtype.to_signed() };
    (@dtype $dtype:ident, $how:tt) => { $dtype };
    (@choice $t:ty, $x:tt, $p:tt, []) => {};
    (@choice $t:ty, [$($x:ident),+], [$($p:ident)?], [[$vectors:expr] $($rest:tt)*]) => {
        $crate::strips!(@choice $t, [$($x),+], [$($p)?], [$($rest)*]);
        const VECTORS: bool = true;
        #[inline(always)]
        #[allow(unused_variables)]
        fn map_vectors<I: ::flambeau_cpu::math::Isa, const C: usize>(
            [$($x),+]: [[$t; C]; { $crate::strips!(@count $($x)+) }],
            _params: &[$t; ::flambeau_cpu::pointwise::MAX_PARAMS],
        ) -> Option<[$t; C]> {
            $(let $p = _params;)?
            $vectors
        }
    };
    (@choice $t:ty, $x:tt, $p:tt, [$fast:expr, $cond:expr, $half:expr]) => {
        $crate::strips!(@choice $t, $x, $p, [$fast, $cond]);
        const HALVES: bool = true;
        $crate::strips!(@map map_halves, $t, $x, $p, $half);
    };
    (@choice $t:ty, [$($x:ident),+], [$($p:ident)?], [$fast:expr, $cond:expr]) => {
        const CHOICE: bool = true;
        #[inline(always)]
        #[allow(unused_variables)]
        fn chosen(
            [$($x),+]: [$t; { $crate::strips!(@count $($x)+) }],
            _params: &[$t; ::flambeau_cpu::pointwise::MAX_PARAMS],
        ) -> bool {
            $(let $p = _params;)?
            $cond
        }
        $crate::strips!(@map map_chosen, $t, [$($x),+], [$($p)?], $fast);
    };
    (@map $name:ident, $t:ty, [$($x:ident),+], [$($p:ident)?], $e:expr) => {
        #[inline(always)]
        fn $name<I: ::flambeau_cpu::math::Isa>(
            [$($x),+]: [$t; { $crate::strips!(@count $($x)+) }],
            _params: &[$t; ::flambeau_cpu::pointwise::MAX_PARAMS],
        ) -> Self::Out {
            #[allow(unused_imports)]
            use ::flambeau_cpu::math::Number as _;
            $(#[allow(unused_variables)] let $p = _params;)?
            $e
        }
    };
    (@out $t:ty, ) => { $t };
    (@out $t:ty, $out:ty) => { $out };
    (@count $a:ident) => { 1 };
    (@count $a:ident $b:ident) => { 2 };
    (@count $a:ident $b:ident $c:ident) => { 3 };
    (@count $a:ident $b:ident $c:ident $d:ident) => { 4 };
}

/// Runs an expression with the Rust type of a dtype; see [`flambeau_base::dispatch!`].
#[macro_export]
macro_rules! dispatch_dtype {
    ($($t:tt)*) => { ::flambeau_base::dispatch!($($t)*) };
}

/// The text of each group's expression, for kernels compiled at run time.
#[macro_export]
macro_rules! strip_text {
    ($($group:ident $($how:ident)* $(-> $out:ty)? |$($x:ident),+ $(; $p:ident)?| $(=> $fast:expr, if $cond:expr, $(halves $half:expr,)? $(vectors $vectors:expr,)? else)? $e:expr;)*) => {
        &[$((stringify!($group), concat!($(stringify!($x), " "),+, "=> ", stringify!($e)))),*]
    };
}

/// The body of a pointwise operator: how many operands, the promotion, the scalar parameters' reader, PyTorch's name for
/// its kernel (empty when it is the operator's), then the strips.
///
/// ```ignore
/// pointwise!(2, Promotion::Float, scalar_params, "atan2_cpu"; floats |x, y| x.atan2::<I>(y);)
/// ```
#[macro_export]
macro_rules! pointwise {
    ($arity:expr, $promotion:expr, $params:expr, $cpu_name:expr; $($strips:tt)*) => {
        $crate::Body::Pointwise(&$crate::pointwise::Pointwise {
            arity: $arity,
            promotion: $promotion,
            strips: $crate::strips! { $($strips)* },
            params: $params,
            text: $crate::strip_text! { $($strips)* },
            cpu_name: $cpu_name,
        })
    };
}

/// Further names of operators. Each passes its arguments on to the static named after the arrow, whose samples and
/// accuracy it shares.
///
/// ```ignore
/// alias! { multiply: "multiply.Tensor(Tensor self, Tensor other) -> Tensor" => mul::OP; }
/// ```
/// Families whose forms follow from the name: `function` (of one tensor, and its `out=` form), `unary` (also in place),
/// `compare` (both of these, of a tensor or number).
///
/// ```ignore
/// alias! { unary absolute, absolute_ => abs; }
/// ```
#[macro_export]
macro_rules! alias {
    ($(function $name:ident => $($base:ident)::+;)+) => { $(
        $crate::alias! { @forms $name, $($base)::+;
            functional: concat!(stringify!($name), "(Tensor self) -> Tensor") => OP;
            out: concat!(stringify!($name), ".out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)") => OUT;
        }
    )+ };
    ($(unary $name:ident, $inplace:ident => $($base:ident)::+;)+) => { $(
        $crate::alias! { @forms $name, $($base)::+;
            functional: concat!(stringify!($name), "(Tensor self) -> Tensor") => OP;
            in_place: concat!(stringify!($inplace), "(Tensor(a!) self) -> Tensor(a!)") => INPLACE;
            out: concat!(stringify!($name), ".out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)") => OUT;
        }
    )+ };
    ($(compare $name:ident, $inplace:ident => $($base:ident)::+;)+) => { $(
        $crate::alias! { @forms $name, $($base)::+;
            tensor: concat!(stringify!($name), ".Tensor(Tensor self, Tensor other) -> Tensor") => OP;
            tensor_in_place: concat!(stringify!($inplace), ".Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)") => INPLACE;
            tensor_out: concat!(stringify!($name), ".Tensor_out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)") => OUT;
            scalar: concat!(stringify!($name), ".Scalar(Tensor self, Scalar other) -> Tensor") => SCALAR;
            scalar_in_place: concat!(stringify!($inplace), ".Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)") => SCALAR_INPLACE;
            scalar_out: concat!(stringify!($name), ".Scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)") => SCALAR_OUT;
        }
    )+ };
    (@forms $name:ident, $base:path; $($form:ident: $schema:expr => $which:ident;)+) => {
        #[doc = concat!("Another name of `", stringify!($base), "`.")]
        pub mod $name {
            use super::*;
            use $base as base;
            $( $crate::alias! { @one [concat!("Another name of `", stringify!($base), "`.")] $form: $schema => base::$which } )+
            /// All forms.
            pub static ALL: &[&$crate::Op] = &[$(&$form::OP),+];
        }
    };
    (@one [$($doc:expr),*] $name:ident: $schema:expr => $target:expr) => {
        $crate::op! {
            $(#[doc = $doc])*
            $name: $schema;
            $crate::Body::Composite(|_op, _keys, args| $target.call(args));
            samples: |m| $crate::samples::of(&$target, m);
            ulp: $target.accuracy();
        }
    };
    ($($(#[doc = $doc:expr])* $name:ident: $schema:expr => $target:expr;)+) => { $(
        $crate::alias! { @one [$($doc,)* concat!("Calls `", stringify!($target), "`.")] $name: $schema => $target }
    )+ };
}

/// A pointwise operator of one tensor: functional, in-place and `out=` forms, with schemas made from the name.
///
/// ```ignore
/// unary! {
///     /// Hyperbolic tangent of each element.
///     fn tanh, tanh_, tanh_out(x): Promotion::Float;
///     { floats |x| x.tanh::<I>(); complexes |x| complex::tanh(x); }
///     derivative: backward! { self_(g, result: Tensor) => ... };
///     samples: ...;
/// }
/// ```
#[macro_export]
macro_rules! unary {
    (
        $(#[doc = $doc:expr])*
        fn $name:ident, $inplace:ident, $out:ident(x): $promotion:expr;
        { $($strips:tt)* }
        $(sign: $sign:expr;)?
        $(derivative: $derivative:expr;)?
        $(forward: $forward:expr;)?
        $(samples: $samples:expr;)?
        $(ulp: $ulp:expr;)?
        $(out_rule: $out_rule:expr;)?
    ) => {
        $crate::op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor self) -> Tensor"),
                InPlace INPLACE: concat!(stringify!($inplace), "(Tensor(a!) self) -> Tensor(a!)"),
                Out OUT: concat!(stringify!($name), ".out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)");
            $crate::Body::Pointwise(&$crate::pointwise::Pointwise {
                arity: 1,
                promotion: $promotion,
                strips: |dtype, level| {
                    let found = ($crate::strips! { $($strips)* })(dtype, level);
                    $(let found = found.map(|strip| strip.of_sign($sign));)?
                    found
                },
                params: $crate::pointwise::scalar_params,
                text: $crate::strip_text! { $($strips)* },
                cpu_name: "",
            });
            $(derivative: $derivative;)?
            $(forward: $forward;)?
            $(samples: $samples;)?
            $(ulp: $ulp;)?
            $(out_rule: $out_rule;)?
            fn $name(&self) -> Tensor [self];
            fn $inplace(&self) -> Tensor [self] in INPLACE;
            out fn $out(&self) [self] in OUT;
        }
    };
}

/// A pointwise operator of two operands, the second of which may be a number: `Tensor` and `Scalar` overloads in all
/// forms, with schemas made from the name.
#[macro_export]
macro_rules! binary {
    (
        $(#[doc = $doc:expr])*
        fn $name:ident, $inplace:ident, $out:ident(x, y): $promotion:expr;
        { $($strips:tt)* }
        $(derivative: $derivative:expr;)?
        $(forward: $forward:expr;)?
        $(samples: $samples:expr;)?
        $(ulp: $ulp:expr;)?
        $(out_rule: $out_rule:expr;)?
    ) => {
        $crate::op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), ".Tensor(Tensor self, Tensor other) -> Tensor"),
                InPlace INPLACE: concat!(stringify!($inplace), ".Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"),
                Out OUT: concat!(stringify!($name), ".Tensor_out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)"),
                Overload SCALAR: concat!(stringify!($name), ".Scalar(Tensor self, Scalar other) -> Tensor"),
                InPlace SCALAR_INPLACE: concat!(stringify!($inplace), ".Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)"),
                Out SCALAR_OUT: concat!(stringify!($name), ".Scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)");
            $crate::Body::Pointwise(&$crate::pointwise::Pointwise {
                arity: 2,
                promotion: $promotion,
                strips: $crate::strips! { $($strips)* },
                params: $crate::pointwise::scalar_params,
                text: $crate::strip_text! { $($strips)* },
                cpu_name: "",
            });
            $(derivative: $derivative;)?
            $(forward: $forward;)?
            $(samples: $samples;)?
            $(ulp: $ulp;)?
            $(out_rule: $out_rule;)?
            fn $name(&self, other: impl $crate::IntoOperand) -> Tensor [self, other.operand()];
            fn $inplace(&self, other: impl $crate::IntoOperand) -> Tensor [self, other.operand()] in INPLACE;
            out fn $out(&self, other: impl $crate::IntoOperand) [self, other.operand()] in OUT;
        }
    };
}
