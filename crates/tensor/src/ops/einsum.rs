//! Products of several tensors by index letters.

use crate::dims::Dims;
use crate::{Body, DType, Error, Op, Result, Tensor, ensure, sample};

// ---- einsum -------------------------------------------------------------------------------------

/// An index of an einsum: a letter, or a dim of an ellipsis counted from its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Index {
    Ellipsis(usize),
    Letter(char),
}

impl std::fmt::Display for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Index::Letter(letter) => write!(f, "{letter}"),
            Index::Ellipsis(_) => write!(f, "..."),
        }
    }
}

/// The indices of one operand, the ellipsis spread over `extra` dims.
fn indices_of(text: &str, ndim: usize, operand: usize) -> Result<Vec<Index>> {
    let letters = text.chars().filter(|c| c.is_ascii_alphabetic()).count();
    let dotted = text.contains("...");
    let extra = match dotted {
        true => ndim.checked_sub(letters),
        false if letters == ndim => Some(0),
        false => None,
    }
    .ok_or_else(|| {
        Error::runtime(format!(
            "einsum(): the number of subscripts in the equation ({letters}) {} the number of dimensions ({ndim}) for operand \
             {operand}{}",
            if dotted { "is more than" } else { "does not match" },
            if dotted { "" } else { " and no ellipsis was given" }
        ))
    })?;
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ' ' => {}
            '.' => {
                let full = chars.next() == Some('.') && chars.next() == Some('.');
                ensure!(full, "einsum(): found '.' for operand {operand} that is not part of any ellipsis");
                ensure!(!out.iter().any(|i| matches!(i, Index::Ellipsis(_))), "einsum(): found '.' for operand {operand} for which an ellipsis was already found");
                out.extend((0..extra).rev().map(Index::Ellipsis));
            }
            c if c.is_ascii_alphabetic() => out.push(Index::Letter(c)),
            c => return Err(Error::runtime(format!("einsum(): invalid subscript '{c}'"))),
        }
    }
    Ok(out)
}

/// A tensor whose dims carry indices, no index twice.
struct Labelled {
    tensor: Tensor,
    indices: Vec<Index>,
}

impl Labelled {
    /// Takes the diagonal of repeated indices.
    fn new(tensor: &Tensor, indices: Vec<Index>, operand: usize) -> Result<Labelled> {
        let mut x = Labelled { tensor: tensor.clone(), indices };
        loop {
            let n = x.indices.len();
            let pair = (0..n).find_map(|i| (i + 1..n).find(|&j| x.indices[i] == x.indices[j]).map(|j| (i, j)));
            let Some((i, j)) = pair else { return Ok(x) };
            ensure!(
                x.tensor.sizes()[i] == x.tensor.sizes()[j],
                "einsum(): subscript {} is repeated for operand {operand} but the sizes don't match, {} != {}",
                x.indices[i],
                x.tensor.sizes()[j],
                x.tensor.sizes()[i]
            );
            x.tensor = x.tensor.diagonal(0, i as i64, j as i64)?;
            let index = x.indices[i];
            x.indices.remove(j);
            x.indices.remove(i);
            x.indices.push(index);
        }
    }

    /// With the dims of `first` leading, in their order: sums of it lie in memory so.
    fn ordered(self, first: &[Index]) -> Result<Labelled> {
        let mut indices = self.indices.clone();
        indices.sort_unstable_by_key(|i| (rank(first, i), *i));
        if indices == self.indices {
            return Ok(self);
        }
        Ok(Labelled { tensor: self.arranged(&indices)?, indices })
    }

    /// Sums over the indices that `keep` refuses.
    fn sum_out(mut self, keep: impl Fn(Index) -> bool) -> Result<Labelled> {
        let gone: Dims = (0..self.indices.len()).filter(|&d| !keep(self.indices[d])).map(|d| d as i64).collect();
        if !gone.is_empty() {
            self.tensor = self.tensor.sum_dim(&gone, false)?;
            self.indices.retain(|&i| keep(i));
        }
        Ok(self)
    }

    /// With its dims in the given order, missing ones of size one.
    fn arranged(&self, order: &[Index]) -> Result<Tensor> {
        let there: Dims = order.iter().filter_map(|i| self.indices.iter().position(|j| j == i)).map(|d| d as i64).collect();
        let mut t = self.tensor.permute(&there)?;
        for (d, i) in order.iter().enumerate() {
            if !self.indices.contains(i) {
                t = t.unsqueeze(d as i64)?;
            }
        }
        Ok(t)
    }

    fn size(&self, i: Index) -> i64 {
        self.indices.iter().position(|&j| j == i).map_or(1, |d| self.tensor.sizes()[d])
    }

    /// Without the dims of size one whose indices `keep` refuses.
    fn squeeze_out(mut self, keep: impl Fn(Index) -> bool) -> Result<Labelled> {
        for d in (0..self.indices.len()).rev() {
            if !keep(self.indices[d]) && self.tensor.sizes()[d] == 1 {
                self.tensor = self.tensor.squeeze_dim(d as i64)?;
                self.indices.remove(d);
            }
        }
        Ok(self)
    }

    /// The product with another, summed over the indices that `keep` refuses: one batched matrix product, or a product
    /// of elements where nothing is summed (only that one promotes dtypes, which sums of small integers need). `first`
    /// are the indices that lead its dims: what is kept lies in memory in their order as far as a matrix product, either
    /// way round, can give it.
    fn contract(self, other: Labelled, keep: impl Fn(Index) -> bool, first: &[Index]) -> Result<Labelled> {
        // What only one side has and nobody needs is summed first; a size of one is what only the other side has.
        let (a, b) = (self.squeeze_out(&keep)?, other.squeeze_out(&keep)?);
        let a = { let o = b.indices.clone(); a.sum_out(|i| keep(i) || o.contains(&i))? };
        let b = { let o = a.indices.clone(); b.sum_out(|i| keep(i) || o.contains(&i))? };
        let mut all: Vec<Index> = a.indices.iter().chain(&b.indices).copied().collect();
        all.sort_unstable_by_key(|i| (rank(first, i), *i));
        all.dedup();
        let (mut batch, mut left, mut right, mut inner) = (vec![], vec![], vec![], vec![]);
        for &i in &all {
            match (a.indices.contains(&i), b.indices.contains(&i), keep(i)) {
                (true, true, true) => batch.push(i),
                (true, true, false) => inner.push(i),
                (true, false, _) => left.push(i),
                _ => right.push(i),
            }
        }
        if inner.is_empty() {
            let there = |i: &Index| a.indices.contains(i) || b.indices.contains(i);
            let mut indices: Vec<Index> = first.iter().filter(|i| there(i)).copied().collect();
            indices.extend(all.iter().filter(|i| !first.contains(i)));
            return Ok(Labelled { tensor: a.arranged(&indices)?.mul(&b.arranged(&indices)?)?, indices });
        }
        // Rows are what the result has first.
        if let (Some(last), Some(next)) = (right.last(), left.first())
            && (rank(first, last), last) < (rank(first, next), next)
        {
            return b.contract(a, keep, first);
        }
        // One is broadcast, to zero too.
        let size = |i: &Index| if a.size(*i) == 1 { b.size(*i) } else { a.size(*i) };
        let shape = |list: &[Index]| -> i64 { list.iter().map(size).product() };
        let full = |x: &Labelled, order: &[Index], own: &[Index]| {
            let target: Dims = order.iter().map(|i| if own.contains(i) { size(i) } else { 1 }).collect();
            x.arranged(order)?.expand(&target)
        };
        let cat = |lists: [&[Index]; 3]| lists.concat();
        let (order_a, order_b) = (cat([&batch, &left, &inner]), cat([&batch, &inner, &right]));
        let (nb, nl, nr, ni) = (shape(&batch), shape(&left), shape(&right), shape(&inner));
        let x = full(&a, &order_a, &order_a)?.reshape(&[nb, nl, ni])?;
        let y = full(&b, &order_b, &order_b)?.reshape(&[nb, ni, nr])?;
        let product = x.bmm(&y)?;
        let indices = cat([&batch, &left, &right]);
        let sizes: Dims = indices.iter().map(size).collect();
        Ok(Labelled { tensor: product.reshape(&sizes)?, indices })
    }
}

/// The place of an index among those of the result; that of others is after them.
fn rank(first: &[Index], i: &Index) -> usize {
    first.iter().position(|f| f == i).unwrap_or(first.len())
}

fn einsum_any(equation: &str, tensors: &[Tensor], path: Option<&[i64]>) -> Result<Tensor> {
    ensure!(!tensors.is_empty(), "einsum(): must provide at least one operand");
    let stranger = equation.chars().position(|c| !c.is_ascii_alphabetic() && !" .,->".contains(c));
    if let Some(at) = stranger {
        return Err(Error::runtime(format!(
            "einsum(): invalid subscript given at index {at} in the equation string, subscripts must be in [a-zA-Z]"
        )));
    }
    let (inputs, output) = match equation.split_once("->") {
        Some((i, o)) => (i, Some(o)),
        None => (equation, None),
    };
    let texts: Vec<&str> = inputs.split(',').collect();
    ensure!(
        texts.len() == tensors.len(),
        "einsum(): {} operands were provided than specified in the equation",
        if tensors.len() > texts.len() { "more" } else { "fewer" }
    );
    let mut operands = Vec::new();
    let mut counts: Vec<(Index, usize)> = Vec::new();
    for (k, (text, t)) in texts.iter().zip(tensors).enumerate() {
        let indices = indices_of(text, t.dim(), k)?;
        for &i in &indices {
            match counts.iter_mut().find(|(j, _)| *j == i) {
                Some((_, n)) => *n += 1,
                None => counts.push((i, 1)),
            }
        }
        operands.push(Labelled::new(t, indices, k)?);
    }
    for &(i, _) in &counts {
        let sizes: Vec<i64> = operands.iter().filter(|o| o.indices.contains(&i)).map(|o| o.size(i)).collect();
        let target = sizes.iter().copied().find(|s| *s != 1).unwrap_or(1);
        for (k, s) in sizes.iter().enumerate() {
            ensure!(
                *s == 1 || *s == target,
                "einsum(): subscript {i} has size {s} for operand {k} which does not broadcast with previously seen size \
                 {target}"
            );
        }
    }
    let ellipsis = counts.iter().filter_map(|(i, _)| if let Index::Ellipsis(d) = i { Some(*d + 1) } else { None }).max().unwrap_or(0);
    let result: Vec<Index> = match output {
        Some(text) => {
            let letters = text.chars().filter(|c| c.is_ascii_alphabetic()).count();
            let extra = if text.contains("...") { ellipsis } else { 0 };
            let list = indices_of(text, letters + extra, tensors.len())?;
            for (n, i) in list.iter().enumerate() {
                ensure!(!list[..n].contains(i), "einsum(): output subscript {i} appears more than once in the output");
                ensure!(
                    counts.iter().any(|(j, _)| j == i),
                    "einsum(): output subscript {i} does not appear in the equation for any input operand"
                );
            }
            list
        }
        None => {
            let mut letters: Vec<Index> = counts
                .iter()
                .filter(|(i, n)| *n == 1 && matches!(i, Index::Letter(_)))
                .map(|(i, _)| *i)
                .collect();
            letters.sort_unstable();
            (0..ellipsis).rev().map(Index::Ellipsis).chain(letters).collect()
        }
    };
    // Pairs in the given order, or from left to right.
    let mut pairs: std::collections::VecDeque<(usize, usize)> = match path {
        Some(p) => p.chunks(2).filter(|c| c.len() == 2).map(|c| (c[0].max(0) as usize, c[1].max(0) as usize)).collect(),
        None => Default::default(),
    };
    let mut operands = operands.into_iter().map(|o| o.ordered(&result)).collect::<Result<Vec<_>>>()?;
    while operands.len() > 1 {
        let (i, j) = match pairs.pop_front() {
            Some((i, j)) if i != j && i < operands.len() && j < operands.len() => (i.min(j), i.max(j)),
            Some(_) => return Err(Error::runtime("einsum(): the path does not name two different operands")),
            None => (0, 1),
        };
        let b = operands.remove(j);
        let a = operands.remove(i);
        let needed: Vec<Index> = operands.iter().flat_map(|o| o.indices.clone()).chain(result.iter().copied()).collect();
        let product = a.contract(b, |i| needed.contains(&i), &result)?.ordered(&result)?;
        if path.is_some() { operands.push(product) } else { operands.insert(0, product) }
    }
    let last = operands.remove(0).sum_out(|i| result.contains(&i))?;
    last.arranged(&result)
}

op! {
    /// Sums of products by Einstein's convention: `einsum("ij,jk->ik", [a, b])`.
    einsum: "einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor";
    Body::Composite(kernel!(einsum_any; equation, tensors, path));
    samples: |m| match m.dtype { DType::Bool => vec![], _ => vec![
        sample!["ij,jk->ik", vec![m.any(&[2, 3]), m.any(&[3, 4])], ()],
        sample!["bij,bjk", vec![m.any(&[2, 2, 3]), m.any(&[2, 3, 4])], ()],
        sample!["...ii->...i", vec![m.any(&[2, 3, 3])], ()],
        sample!["i,j,ij->", vec![m.any(&[2]), m.any(&[3]), m.any(&[2, 3])], ()],
    ] };
    ulp: 64.0;
    fn einsum(equation: &str, tensors: &[Tensor]) -> Tensor [equation, tensors];
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    einsum::ALL,
];
