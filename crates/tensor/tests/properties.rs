//! Views, indexing and schemas under random arguments, good and bad: each is compared with a model that knows nothing of
//! strides, and nothing may panic, reach outside its storage, or write where it should not.

use flambeau::schema::Schema;
use flambeau::{DType, Index, Result, Tensor, registry};
use proptest::collection::vec;
use proptest::prelude::*;

/// A tensor of element numbers without strides: what a view of `arange` must look like.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    sizes: Vec<i64>,
    elements: Vec<i64>,
}

impl Model {
    fn arange(sizes: &[i64]) -> Model {
        Model { sizes: sizes.to_vec(), elements: (0..sizes.iter().product()).collect() }
    }

    /// A model of new sizes whose element at `place` is this one's at `f(place)`.
    fn gather(&self, sizes: Vec<i64>, f: impl Fn(&[i64]) -> Vec<i64>) -> Model {
        let mut elements = Vec::new();
        for_each_place(&sizes, |place| {
            let from = f(place);
            let flat = from.iter().zip(&self.sizes).fold(0, |flat, (i, size)| {
                assert!((0..*size).contains(i), "the model reads outside itself");
                flat * size + i
            });
            elements.push(self.elements[flat as usize]);
        });
        Model { sizes, elements }
    }

    fn of(t: &Tensor) -> Model {
        Model { sizes: t.sizes().to_vec(), elements: t.to_vec::<i64>().unwrap() }
    }
}

fn for_each_place(sizes: &[i64], mut f: impl FnMut(&[i64])) {
    let count: i64 = sizes.iter().product();
    for n in 0..count {
        let mut rest = n;
        let mut place = vec![0; sizes.len()];
        for d in (0..sizes.len()).rev() {
            place[d] = rest % sizes[d];
            rest /= sizes[d];
        }
        f(&place);
    }
}

/// One view operator with arguments that may or may not fit.
#[derive(Clone, Debug)]
enum View {
    Select(i64, i64),
    Slice(i64, Option<i64>, Option<i64>, i64),
    Narrow(i64, i64, i64),
    Transpose(i64, i64),
    Permute(Vec<i64>),
    Unsqueeze(i64),
    Squeeze(i64),
    Expand(Vec<i64>),
    Reshape(Vec<i64>),
    Diagonal(i64, i64, i64),
    Unfold(i64, i64, i64),
    Flatten(i64, i64),
}

fn view() -> impl Strategy<Value = View> {
    let dim = -4i64..4;
    let small = -5i64..6;
    prop_oneof![
        (dim.clone(), small.clone()).prop_map(|(d, i)| View::Select(d, i)),
        (dim.clone(), prop::option::of(small.clone()), prop::option::of(small.clone()), -1i64..4)
            .prop_map(|(d, a, b, s)| View::Slice(d, a, b, s)),
        (dim.clone(), small.clone(), -1i64..5).prop_map(|(d, a, n)| View::Narrow(d, a, n)),
        (dim.clone(), dim.clone()).prop_map(|(a, b)| View::Transpose(a, b)),
        vec(dim.clone(), 0..5).prop_map(View::Permute),
        Just(vec![2, 0, 1]).prop_shuffle().prop_map(View::Permute),
        Just(vec![0, 1]).prop_shuffle().prop_map(View::Permute),
        dim.clone().prop_map(View::Unsqueeze),
        dim.clone().prop_map(View::Squeeze),
        vec(-2i64..4, 0..5).prop_map(View::Expand),
        vec(-2i64..7, 0..4).prop_map(View::Reshape),
        (-3i64..4, dim.clone(), dim.clone()).prop_map(|(o, a, b)| View::Diagonal(o, a, b)),
        (dim.clone(), -1i64..4, -1i64..3).prop_map(|(d, n, s)| View::Unfold(d, n, s)),
        (dim.clone(), dim).prop_map(|(a, b)| View::Flatten(a, b)),
    ]
}

fn apply(t: &Tensor, v: &View) -> Result<Tensor> {
    match v {
        View::Select(d, i) => t.select(*d, *i),
        View::Slice(d, a, b, s) => t.slice(*d, *a, *b, *s),
        View::Narrow(d, a, n) => t.narrow(*d, *a, *n),
        View::Transpose(a, b) => t.transpose(*a, *b),
        View::Permute(order) => t.permute(order),
        View::Unsqueeze(d) => t.unsqueeze(*d),
        View::Squeeze(d) => t.squeeze_dim(*d),
        View::Expand(size) => t.expand(size),
        View::Reshape(size) => t.reshape(size),
        View::Diagonal(o, a, b) => t.diagonal(*o, *a, *b),
        View::Unfold(d, n, s) => t.unfold(*d, *n, *s),
        View::Flatten(a, b) => t.flatten(*a, *b),
    }
}

fn wrap(d: i64, n: usize) -> Option<usize> {
    let n = (n as i64).max(1);
    (-n..n).contains(&d).then(|| if d < 0 { d + n } else { d } as usize)
}

/// What the model says: `None` where PyTorch raises.
fn apply_model(m: &Model, v: &View) -> Option<Model> {
    let n = m.sizes.len();
    let dim = |d: i64| wrap(d, n);
    let real_dim = |d: i64| if n == 0 { None } else { wrap(d, n) };
    let with = |d: usize, size: i64| {
        let mut sizes = m.sizes.clone();
        sizes[d] = size;
        sizes
    };
    Some(match v {
        View::Select(d, i) => {
            let d = real_dim(*d)?;
            let i = if *i < 0 { i + m.sizes[d] } else { *i };
            if !(0..m.sizes[d]).contains(&i) {
                return None;
            }
            let mut sizes = m.sizes.clone();
            sizes.remove(d);
            m.gather(sizes, |p| [&p[..d], &[i], &p[d..]].concat())
        }
        View::Slice(d, start, end, step) => {
            let d = real_dim(*d)?;
            if *step <= 0 {
                return None;
            }
            let size = m.sizes[d];
            let clamp = |i: i64| if i < 0 { i + size } else { i }.clamp(0, size);
            let (start, end) = (clamp(start.unwrap_or(0)), clamp(end.unwrap_or(size)));
            let count = (start..end.max(start)).step_by(*step as usize).count() as i64;
            m.gather(with(d, count), |p| {
                let mut p = p.to_vec();
                p[d] = start + p[d] * step;
                p
            })
        }
        View::Narrow(d, start, length) => {
            let d = real_dim(*d)?;
            let size = m.sizes[d];
            if *length < 0 || *start < -size || *start > size {
                return None;
            }
            let start = if *start < 0 { start + size } else { *start };
            if start + length > size {
                return None;
            }
            m.gather(with(d, *length), |p| {
                let mut p = p.to_vec();
                p[d] += start;
                p
            })
        }
        View::Transpose(a, b) => {
            let (a, b) = (dim(*a)?, dim(*b)?);
            if n == 0 {
                return Some(m.clone());
            }
            let mut sizes = m.sizes.clone();
            sizes.swap(a, b);
            m.gather(sizes, |p| {
                let mut p = p.to_vec();
                p.swap(a, b);
                p
            })
        }
        View::Permute(order) => {
            if order.len() != n {
                return None;
            }
            let order: Vec<usize> = order.iter().map(|d| dim(*d)).collect::<Option<_>>()?;
            if (0..n).any(|d| !order.contains(&d)) {
                return None;
            }
            m.gather(order.iter().map(|d| m.sizes[*d]).collect(), |p| {
                let mut from = vec![0; n];
                for (i, d) in order.iter().enumerate() {
                    from[*d] = p[i];
                }
                from
            })
        }
        View::Unsqueeze(d) => {
            let d = wrap(*d, n + 1)?;
            let mut sizes = m.sizes.clone();
            sizes.insert(d, 1);
            Model { sizes, elements: m.elements.clone() }
        }
        View::Squeeze(d) => {
            let d = dim(*d)?;
            let mut sizes = m.sizes.clone();
            if n > 0 && sizes[d] == 1 {
                sizes.remove(d);
            }
            Model { sizes, elements: m.elements.clone() }
        }
        View::Expand(size) => {
            if size.len() < n {
                return None;
            }
            let lead = size.len() - n;
            let mut sizes = Vec::new();
            for (i, s) in size.iter().enumerate() {
                let own = if i < lead { None } else { Some(m.sizes[i - lead]) };
                sizes.push(match (own, *s) {
                    (None, s) if s < 0 => return None,
                    (Some(own), -1) => own,
                    (_, s) if s < 0 => return None,
                    (Some(own), s) if own != s && own != 1 => return None,
                    (_, s) => s,
                });
            }
            m.gather(sizes, |p| p[lead..].iter().zip(&m.sizes).map(|(i, own)| if *own == 1 { 0 } else { *i }).collect())
        }
        View::Reshape(size) => {
            let total: i64 = m.sizes.iter().product();
            if size.iter().any(|s| *s < -1) || size.iter().filter(|s| **s == -1).count() > 1 {
                return None;
            }
            let known: i64 = size.iter().filter(|s| **s >= 0).product();
            let mut sizes = size.clone();
            if let Some(hole) = sizes.iter_mut().find(|s| **s == -1) {
                if known == 0 || total % known != 0 {
                    return None;
                }
                *hole = total / known;
            } else if known != total {
                return None;
            }
            Model { sizes, elements: m.elements.clone() }
        }
        View::Diagonal(offset, a, b) => {
            let (a, b) = (real_dim(*a)?, real_dim(*b)?);
            if a == b {
                return None;
            }
            let (rows, columns) = (m.sizes[a], m.sizes[b]);
            let count = if *offset >= 0 { rows.min(columns - offset) } else { (rows + offset).min(columns) }.max(0);
            let mut sizes: Vec<i64> = (0..n).filter(|d| *d != a && *d != b).map(|d| m.sizes[d]).collect();
            sizes.push(count);
            m.gather(sizes, |p| {
                let mut rest = p.iter();
                let k = p[p.len() - 1];
                (0..n)
                    .map(|d| match d {
                        d if d == a => k + (-offset).max(0),
                        d if d == b => k + (*offset).max(0),
                        _ => *rest.next().unwrap(),
                    })
                    .collect()
            })
        }
        View::Unfold(d, size, step) => {
            let d = dim(*d)?;
            let length = if n == 0 { 1 } else { m.sizes[d] };
            if *size < 0 || *size > length || *step <= 0 {
                return None;
            }
            if n == 0 {
                return Some(Model { sizes: vec![*size], elements: m.elements[..*size as usize].to_vec() });
            }
            let mut sizes = with(d, (length - size) / step + 1);
            sizes.push(*size);
            m.gather(sizes, |p| {
                let mut from = p[..n].to_vec();
                from[d] = p[d] * step + p[n];
                from
            })
        }
        View::Flatten(a, b) => {
            let (a, b) = (dim(*a)?, dim(*b)?);
            if a > b {
                return None;
            }
            if n == 0 {
                return Some(Model { sizes: vec![1], elements: m.elements.clone() });
            }
            let mut sizes = m.sizes[..a].to_vec();
            sizes.push(m.sizes[a..=b].iter().product());
            sizes.extend(&m.sizes[b + 1..]);
            Model { sizes, elements: m.elements.clone() }
        }
    })
}

fn arange(sizes: &[i64]) -> Tensor {
    Tensor::arange(sizes.iter().product::<i64>(), DType::I64).unwrap().view(sizes).unwrap()
}

/// One part of an index, good or bad.
fn part() -> impl Strategy<Value = Index> {
    let small = -4i64..5;
    prop_oneof![
        4 => small.clone().prop_map(Index::At),
        4 => (prop::option::of(small.clone()), prop::option::of(small.clone()), 0i64..3)
            .prop_map(|(start, end, step)| Index::Slice { start, end, step }),
        1 => Just(Index::NewAxis),
        1 => Just(Index::Ellipsis),
        2 => vec(-3i64..3, 0..4).prop_map(|i| Index::Tensor(Tensor::from_slice(&i).unwrap())),
        1 => vec(any::<bool>(), 1..4).prop_map(|mask| {
            let mask: Vec<flambeau::Bool> = mask.into_iter().map(Into::into).collect();
            Index::Tensor(Tensor::from_slice(&mask).unwrap())
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn views_show_what_the_model_says(sizes in vec(0i64..4, 0..4), views in vec(view(), 1..5)) {
        let base = arange(&sizes);
        let (mut t, mut m) = (base.clone(), Model::arange(&sizes));
        for v in &views {
            match (apply(&t, v), apply_model(&m, v)) {
                (Ok(new), Some(model)) => {
                    prop_assert_eq!(&Model::of(&new), &model, "{:?} of sizes {:?}", v, t.sizes());
                    (t, m) = (new, model);
                }
                (Err(_), None) => {}
                (got, expected) => {
                    let got = got.map(|t| t.sizes().to_vec());
                    prop_assert!(false, "{v:?} of sizes {:?}: {got:?}, the model {expected:?}", t.sizes());
                }
            }
        }
        // A write through the view is seen in the base, at the elements that the view shows and at no others.
        if t.is_view() && t.numel() > 0 && !flambeau::dims::may_overlap(t.sizes(), t.strides()) {
            t.fill_(-1).unwrap();
            let expected: Vec<i64> =
                (0..base.numel()).map(|i| if m.elements.contains(&i) { -1 } else { i }).collect();
            let shared = t.shares_storage_with(&base);
            prop_assert_eq!(base.to_vec::<i64>().unwrap() == expected, shared);
        }
    }

    #[test]
    fn any_geometry_fits_or_is_refused(
        sizes in vec(-1i64..5, 0..4), strides in vec(-1i64..9, 0..4), offset in prop::option::of(-2i64..30),
    ) {
        let base = arange(&[24]);
        if let Ok(t) = base.as_strided(&sizes, &strides, offset) {
            for (place, found) in Model::of(&t).elements.iter().enumerate() {
                let mut rest = place as i64;
                let mut at = offset.unwrap_or(0);
                for d in (0..sizes.len()).rev() {
                    at += rest % sizes[d] * strides[d];
                    rest /= sizes[d];
                }
                prop_assert!(*found == at && at < 24);
            }
        } else {
            let reach: i64 = sizes.iter().zip(&strides).map(|(n, s)| (n - 1) * s).sum::<i64>() + offset.unwrap_or(0);
            let bad = sizes.len() != strides.len()
                || sizes.iter().chain(&strides).any(|x| *x < 0)
                || offset.is_some_and(|o| o < 0)
                || (!sizes.contains(&0) && reach >= 24);
            prop_assert!(bad, "sizes {sizes:?}, strides {strides:?}, offset {offset:?} fit, but were refused");
        }
    }

    #[test]
    fn huge_arguments_are_refused(sizes in vec(prop_oneof![any::<i64>(), 0i64..3], 1..4), x in any::<i64>(), y in any::<i64>()) {
        let t = arange(&[2, 3, 2]);
        let _ = (t.as_strided(&sizes, &sizes, Some(x)), t.expand(&sizes), t.reshape(&sizes), t.permute(&sizes));
        let _ = (t.select(x, y), t.slice(x, Some(y), Some(x), y), t.slice(1, Some(x), Some(y), 1), t.narrow(1, x, y));
        let _ = (t.unfold(0, x, y), t.unfold(x, 1, y), t.diagonal(x, 0, 1), t.diagonal(0, x, y), t.flatten(x, y));
        let _ = (t.split(x, 0), t.chunk(x, y), t.split_with_sizes(&sizes, 1), t.unflatten(1, &sizes), t.unbind(x));
        let _ = (t.roll(&[x], &[1]), t.movedim(&[x], &[y]), t.squeeze_dims(&sizes), t.at(&[Index::At(x), Index::At(y)]));
        let _ = (t.at(&[Index::Slice { start: Some(x), end: Some(y), step: x }]), t.view(&sizes));
        // Only sizes that could not be met anyway: the small ones would be filled.
        if sizes.iter().any(|s| *s < 0 || *s > 1 << 48) && !sizes.contains(&0) {
            prop_assert!(Tensor::empty(&sizes, DType::F64).is_err());
        }
    }

    #[test]
    fn indexing_reads_writes_and_adds_at_the_same_elements(sizes in vec(0i64..4, 0..4), parts in vec(part(), 0..5)) {
        let base = arange(&sizes);
        let Ok(read) = base.at(&parts) else {
            // What cannot be read cannot be written, and nothing is.
            prop_assert!(base.set_at(&parts, -1).is_err() && base.add_at(&parts, 1000).is_err());
            prop_assert_eq!(Model::of(&base), Model::arange(&sizes));
            return Ok(());
        };
        let named = read.to_vec::<i64>().unwrap();
        let only_views = !parts.iter().any(|p| matches!(p, Index::Tensor(_)));
        prop_assert_eq!(read.shares_storage_with(&base), only_views);
        let written = base.clone_in(flambeau::MemoryFormat::Contiguous).unwrap();
        written.set_at(&parts, -1).unwrap();
        let expected: Vec<i64> = (0..base.numel()).map(|i| if named.contains(&i) { -1 } else { i }).collect();
        prop_assert_eq!(written.to_vec::<i64>().unwrap(), expected);
        let added = base.clone_in(flambeau::MemoryFormat::Contiguous).unwrap();
        added.add_at(&parts, 1000).unwrap();
        let times = |i: i64| named.iter().filter(|n| **n == i).count() as i64;
        let expected: Vec<i64> = (0..base.numel()).map(|i| i + 1000 * times(i)).collect();
        prop_assert_eq!(added.to_vec::<i64>().unwrap(), expected);
        // Writing back what was read changes nothing.
        base.set_at(&parts, &read.clone_in(flambeau::MemoryFormat::Contiguous).unwrap()).unwrap();
        prop_assert_eq!(Model::of(&base), Model::arange(&sizes));
    }

    #[test]
    fn any_text_is_a_schema_or_an_error(text in "[a-zA-Z_:.(!)\\[\\]?*,=> 0-9-]{0,60}") {
        if let Ok(schema) = Schema::parse(&text) {
            prop_assert_eq!(Schema::parse(&schema.to_string()).unwrap(), schema);
        }
    }

    #[test]
    fn a_damaged_schema_is_a_schema_or_an_error(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), with in any::<char>(), cut: bool) {
        let all = registry::all();
        let text = which.get(&all).schema_text;
        let at = text.char_indices().map(|(i, _)| i).nth(at.index(text.chars().count())).unwrap();
        let damaged = if cut { text[..at].to_string() } else { format!("{}{with}{}", &text[..at], &text[at..]) };
        if let Ok(schema) = Schema::parse(&damaged) {
            prop_assert_eq!(Schema::parse(&schema.to_string()).unwrap(), schema);
        }
    }
}

#[test]
fn every_schema_survives_being_written() {
    for op in registry::all() {
        let schema = op.schema();
        assert_eq!(&Schema::parse(&schema.to_string()).unwrap(), schema, "{}", op.schema_text);
    }
}
