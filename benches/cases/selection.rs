//! Sorting, searching, indexing, joining and copying: the rest of the group `reductions`.

use crate::inputs::{integers, mask, normal, normals, uniform};
use crate::{Group, ok};
use flambeau::DType::F64;
use flambeau::{MemoryFormat, Tensor, index};

const MILLION: i64 = 1_000_000;

/// All cases.
pub fn cases(g: &mut Group<'_>) {
    ordering(g);
    indexing(g);
    copying(g);
}

fn ordering(g: &mut Group<'_>) {
    let (million, matrix) = (|| normal(&[MILLION]), || normal(&[1024, 1024]));
    g.case("sort_1M", million, |x| x.sort(-1, false));
    g.case("sort_rows_1kx1k", matrix, |x| x.sort(-1, false));
    g.case("argsort_i64_100k", || ok(Tensor::randperm(100_000)), |x| x.argsort(-1, false));
    g.case("topk_rows_1kx1k_k10", matrix, |x| x.topk(10, -1, true));
    g.case("topk_1M_k100", million, |x| x.topk(100, -1, true));
    g.case("median_1M", million, Tensor::median);
    g.case("unique_1M", || integers(0, 10_000, &[MILLION]), |x| x.unique(false, false));
    g.case("bincount_1M", || integers(0, 1000, &[MILLION]), |x| x.bincount(None, 0));
    g.case("nonzero_1M", || mask(&[MILLION]), Tensor::nonzero);
    let numbers = || uniform(0.0, 1.0, &[100_000], F64);
    g.case(
        "searchsorted_100k",
        || (ok(numbers().sort(-1, false)).0, numbers()),
        |(sorted, x)| sorted.searchsorted(x, false),
    );
}

fn indexing(g: &mut Group<'_>) {
    let rows = || (normal(&[10_000, 256]), integers(0, 10_000, &[20_000]));
    g.case("index_select_rows", rows, |(x, i)| x.index_select(0, i));
    g.case("index_rows_getitem", rows, |(x, i)| x.at(&index![i]));
    g.case("index_elements_1M", || (normal(&[MILLION]), integers(0, MILLION, &[MILLION])), |(x, i)| x.at(&index![i]));
    g.case("gather_1kx1k", || (normal(&[1024, 1024]), integers(0, 1024, &[1024, 1024])), |(x, i)| x.gather(1, i));
    g.case(
        "scatter_add_1M",
        || (normal(&[10_000]), integers(0, 10_000, &[MILLION]), normal(&[MILLION])),
        |(x, i, s)| x.scatter_add(0, i, s),
    );
    g.case(
        "index_add_rows",
        || (normal(&[10_000, 64]), integers(0, 10_000, &[20_000]), normal(&[20_000, 64])),
        |(x, i, s)| x.index_add(0, i, s),
    );
    g.case(
        "index_put_accumulate",
        || (normal(&[10_000]), [Some(integers(0, 10_000, &[100_000]))], normal(&[100_000])),
        |(x, i, s)| x.index_put(i, s, true),
    );
    g.case("embedding_1024x768", || (normal(&[50257, 768]), integers(0, 50257, &[8, 128])), |(w, i)| w.embedding(i));
    let masked = || (normal(&[MILLION]), mask(&[MILLION]));
    g.case("masked_select_1M", masked, |(x, k)| x.masked_select(k));
    g.case("masked_fill_1M", masked, |(x, k)| x.masked_fill(k, -1.0));
    g.case("one_hot_10kx100", || integers(0, 100, &[10_000]), |i| i.one_hot(100));
}

fn copying(g: &mut Group<'_>) {
    g.case("cat_dim0_8x1M", || normals(8, &[1024 * 1024]), |xs| Tensor::cat(xs, 0));
    g.case("cat_dim1_64", || normals(64, &[1024, 32]), |xs| Tensor::cat(xs, 1));
    g.case("stack_64", || normals(64, &[32768]), |xs| Tensor::stack(xs, 0));
    g.case("contiguous_transpose_3kx3k", || ok(normal(&[3072, 3072]).t()), Tensor::contiguous);
    g.case("contiguous_nhwc_to_nchw", || ok(normal(&[8, 56, 56, 64]).permute(&[0, 3, 1, 2])), Tensor::contiguous);
    g.case("contiguous_heads", || normal(&[8, 128, 12, 64]), |x| x.transpose(1, 2)?.contiguous());
    g.case("clone_10M", || normal(&[10_000_000]), |x| x.clone_in(MemoryFormat::Preserve));
    g.case("flip_1M", || normal(&[1024 * 1024]), |x| x.flip(&[0]));
    g.case("roll_1kx1k", || normal(&[1024, 1024]), |x| x.roll(&[3], &[1]));
    g.case("repeat_1M", || normal(&[512, 256]), |x| x.repeat(&[4, 2]));
    g.case("tril_1kx1k", || normal(&[1024, 1024]), |x| x.tril(0));
}
