//! Every operator, one entry each. A file holds a family; its `OPS` lists all entries of the file.
//! Nothing here knows about dispatch or autograd beyond what an entry declares.

use crate::Op;

/// Declares the families' modules, and the list of all their operators.
macro_rules! families {
    ($($name:ident)*) => {
        $(pub mod $name;)*

        /// Every built-in operator in every form.
        pub(crate) fn all() -> Vec<&'static Op> {
            let families: &[&[&[&'static Op]]] = &[$($name::OPS),*];
            families.iter().flat_map(|f| f.iter()).flat_map(|ops| ops.iter().copied()).collect()
        }
    };
}

mod matrices;
mod rounding;

families! {
    activation
    advanced
    arrange
    attention
    bag
    bessel
    binary
    bitwise
    calculus
    cholesky
    combine
    compare
    complex
    compressed
    conv
    copies
    copy
    create
    ctc
    determinant
    distance
    divide
    dropout
    einsum
    elementary
    embedding
    extreme
    foreach
    fused
    gamma
    gelu
    gate
    histogram
    index
    join
    ldl
    least_squares
    like
    loss
    loss_elements
    lstm_gates
    lu
    margin
    masked
    matmul
    matrix_function
    matrix_norm
    moments
    nll
    norm
    norm_forms
    normal
    orthogonal
    padding
    parts
    patches
    placed
    polynomial
    pool
    power
    random
    range
    recurrent
    reduce
    rms_norm
    rnn
    sampler
    sampling
    scan
    segment
    sets
    shrink
    signal
    softmax
    sort
    sparse
    special
    spectral
    spectrum
    statistics
    ternary
    triangular
    unary
    unpool
    upsample
    view
    weight_norm
}
