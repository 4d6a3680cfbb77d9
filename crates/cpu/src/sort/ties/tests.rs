//! Against indices recorded from PyTorch 2.13 on x86-64 Linux.

use super::*;

/// Random integers below `distinct`.
fn data(n: usize, distinct: u64, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % distinct
    };
    (0..n).map(|_| next()).collect()
}

fn pack(keys: &[u64]) -> Vec<u64> {
    keys.iter().enumerate().map(|(i, &key)| u64::pack(key, i)).collect()
}

fn topk(keys: &[u64], k: usize, sorted: bool) -> Vec<usize> {
    let mut row = pack(keys);
    top(&mut row, k, sorted);
    row[..k].iter().map(|x| x.index()).collect()
}

fn kthvalue(keys: &[u64], at: usize) -> usize {
    kth(&mut pack(keys), at).index()
}

/// One number for many indices in order.
fn digest(indices: &[usize]) -> u64 {
    indices.iter().fold(0, |all: u64, &i| all.wrapping_mul(1_000_003).wrapping_add(i as u64 + 1))
}

#[test]
fn topk_indices() {
    // Elements, how many of them differ, how many are taken, and whether in order.
    let recorded: [(usize, u64, usize, bool, &[usize]); 8] = [
        (8, 1, 2, true, &[6, 5]),
        (8, 3, 5, false, &[5, 7, 4, 3, 6]),
        (20, 2, 7, true, &[14, 10, 11, 12, 13, 16, 18]),
        (20, 4, 19, false, &[1, 17, 15, 13, 11, 10, 8, 3, 19, 9, 5, 4, 12, 7, 14, 2, 18, 0, 16]),
        (40, 3, 9, true, &[5, 10, 19, 34, 14, 11, 32, 12, 26]),
        (70, 2, 1, true, &[0]),
        (200, 1, 3, true, &[0, 1, 2]),
        (200, 4, 3, true, &[19, 17, 13]),
    ];
    for (n, distinct, k, sorted, want) in recorded {
        assert_eq!(topk(&data(n, distinct, n as u64 + distinct), k, sorted), want, "{n} {distinct} {k}");
    }
}

#[test]
fn topk_digests() {
    // Elements, how many of them differ, how many are taken, and digests of these in order and in no order.
    let recorded = [
        (17, 2, 16, 12274342459430974589, 3615515482131330311),
        (33, 5, 20, 3590911609810944980, 4394885212217193246),
        (100, 3, 50, 485863226671571525, 4055994159352583871),
        (100, 3, 1, 8, 8),
        (640, 7, 10, 8238941432328479611, 8238941432328479611),
        (640, 7, 11, 2786618009668851167, 2786618009668851167),
        (1000, 2, 999, 17688595314462551540, 2842021843204475070),
        (1000, 50, 300, 17352480719798690903, 13903950424986881373),
        (3000, 1, 1500, 407612339863599204, 12674241646698247942),
        (3000, 9, 46, 12833719481438389381, 12833719481438389381),
        (3000, 9, 47, 6334296766259072265, 15515139668911420361),
        (3000, 1500, 2000, 10924875320785109884, 5211707829936666762),
    ];
    for (n, distinct, k, sorted, unsorted) in recorded {
        let keys = data(n, distinct, n as u64 + distinct + k as u64);
        assert_eq!(digest(&topk(&keys, k, true)), sorted, "{n} {distinct} {k}");
        assert_eq!(digest(&topk(&keys, k, false)), unsorted, "{n} {distinct} {k}");
    }
}

/// Pivots that are bad again and again, so that heaps take over.
#[test]
fn topk_of_an_organ_pipe() {
    let keys: Vec<u64> = (0..2000).map(|i: u64| i.min(1999 - i) / 3).collect();
    let recorded = [
        (3, 1000008000018, 1000008000018, 1998),
        (700, 12280261226847422226, 13833648770217021518, 349),
        (1000, 11519112579206823922, 12157818635623421356, 1499),
        (1999, 18242238941325585114, 13876852536807738430, 1000),
    ];
    for (k, sorted, unsorted, last) in recorded {
        assert_eq!(digest(&topk(&keys, k, true)), sorted, "{k}");
        assert_eq!(digest(&topk(&keys, k, false)), unsorted, "{k}");
        assert_eq!(kthvalue(&keys, k - 1), last, "{k}");
    }
}

/// How many elements, how many distinct ones, and where those at some places are.
type Places = (usize, u64, &'static [(usize, usize)]);

#[test]
fn kthvalue_indices() {
    let recorded: [Places; 10] = [
        (1, 1, &[(0, 0)]),
        (2, 1, &[(0, 0), (1, 1)]),
        (3, 1, &[(0, 1), (1, 0), (2, 2)]),
        (8, 1, &[(0, 3), (2, 6), (4, 4), (7, 7)]),
        (9, 2, &[(0, 7), (2, 0), (4, 8), (8, 6)]),
        (16, 3, &[(0, 11), (4, 7), (8, 15), (15, 4)]),
        (50, 1, &[(0, 34), (12, 38), (25, 25), (49, 49)]),
        (100, 4, &[(0, 33), (25, 56), (50, 4), (99, 49)]),
        (1000, 2, &[(0, 556), (250, 830), (500, 126), (999, 999)]),
        (3000, 9, &[(0, 1503), (750, 1011), (1500, 2868), (2999, 2425)]),
    ];
    for (n, distinct, want) in recorded {
        let keys = data(n, distinct, n as u64 + distinct);
        for &(at, index) in want {
            assert_eq!(kthvalue(&keys, at), index, "{n} {distinct} {at}");
        }
    }
}

/// Rows that come block by block give what whole ones do.
#[test]
fn topk_in_a_heap() {
    for (n, k) in [(64, 1), (500, 7), (3000, 46)] {
        let keys = data(n, 5, n as u64);
        let row = pack(&keys);
        let mut least = Least::of(row[..k].to_vec());
        for &x in &row[k..] {
            if x.key() < least.limit() {
                least.replace(x);
            }
        }
        let indices: Vec<usize> = least.into_sorted().iter().map(|x| x.index()).collect();
        assert_eq!(indices, topk(&keys, k, true));
    }
}
