//! Membership: which numbers are among others.

use crate::copy::Shared;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{Bool, Element};

/// Numbers that one piece of work looks up.
const PIECE: usize = 1 << 13;
/// Stands in free slots. The one number that is mixed to it has a flag of its own.
const FREE: u64 = u64::MAX;

/// Numbers by their mixed bits: each lies in the first free slot from where these point.
struct Set {
    slots: Vec<u64>,
    has_free: bool,
}

impl Set {
    fn of(keys: impl Iterator<Item = u64>, count: usize) -> Set {
        let size = (3 * count).next_power_of_two();
        let mut set = Set { slots: vec![FREE; size], has_free: false };
        for key in keys {
            let mixed = mix(key);
            if mixed == FREE {
                set.has_free = true;
                continue;
            }
            let at = set.find(mixed);
            set.slots[at] = mixed;
        }
        set
    }

    /// The slot with these bits, or the free one where they belong. There always is one: most are free.
    #[inline(always)]
    fn find(&self, mixed: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = mixed as usize & mask;
        while self.slots[at] != mixed && self.slots[at] != FREE {
            at = (at + 1) & mask;
        }
        at
    }

    #[inline(always)]
    fn contains(&self, key: u64) -> bool {
        let mixed = mix(key);
        if mixed == FREE { self.has_free } else { self.slots[self.find(mixed)] == mixed }
    }
}

/// Every bit of the result depends on all of the key's (the last steps of MurmurHash3); different keys stay different.
#[inline(always)]
fn mix(key: u64) -> u64 {
    let key = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let key = (key ^ key >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ key >> 33
}

/// The bits that equal whole numbers share.
#[inline(always)]
pub fn whole_key<T: Element>(x: T) -> Option<u64> {
    Some(x.to_i64() as u64)
}

/// The bits that equal numbers share; NaN equals nothing.
#[inline(always)]
pub fn real_key<T: Element>(x: T) -> Option<u64> {
    let x = x.to_f64();
    // Zeros are equal whatever their sign.
    (!x.is_nan()).then(|| (x + 0.0).to_bits())
}

/// Whether each of `x` is among `test`, or with `invert` whether it is not.
///
/// # Panics
/// When `out` is not as long as `x`.
pub fn is_member<T: Element>(
    x: &[T],
    test: &[T],
    key: impl Fn(T) -> Option<u64> + Copy + Sync,
    invert: bool,
    out: &mut [Bool],
) {
    assert!(x.len() == out.len(), "a flag for every number");
    let set = Set::of(test.iter().filter_map(|t| key(*t)), test.len());
    let target = Shared(out.as_mut_ptr());
    parallel_for(x.len(), PIECE, &|range| {
        // SAFETY: every piece of work writes its own flags.
        let out = unsafe { std::slice::from_raw_parts_mut(target.get().add(range.start), range.len()) };
        for (out, x) in out.iter_mut().zip(&x[range]) {
            *out = Bool::from(key(*x).is_some_and(|key| set.contains(key)) != invert);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found() {
        let test: Vec<i64> = (0..500).map(|i| i * 4096 - 7).chain([i64::MIN, -1]).collect();
        let x: Vec<i64> = (-20..3_000_000).step_by(3).chain([i64::MIN, i64::MAX, -1, 0]).collect();
        for invert in [false, true] {
            let mut out = vec![Bool::from(false); x.len()];
            is_member(&x, &test, whole_key, invert, &mut out);
            for (x, out) in x.iter().zip(out) {
                assert_eq!(out.get(), test.contains(x) != invert, "{x}");
            }
        }
    }

    #[test]
    fn nan_is_no_member_and_zeros_are_equal() {
        let mut out = [Bool::from(false); 4];
        is_member(&[f32::NAN, -0.0, 1.5, 2.0], &[0.0, f32::NAN, 1.5], real_key, false, &mut out);
        assert_eq!(out.map(Bool::get), [false, true, true, false]);
    }

    #[test]
    fn what_is_mixed_to_the_mark_of_free_slots_is_a_number_too() {
        let inverse = |x: u64, by: u64| {
            (0..6).fold(by, |r, _| r.wrapping_mul(2u64.wrapping_sub(by.wrapping_mul(r)))).wrapping_mul(x)
        };
        let unshift = |x: u64| x ^ x >> 33;
        let key = unshift(inverse(unshift(inverse(unshift(FREE), 0xc4ce_b9fe_1a85_ec53)), 0xff51_afd7_ed55_8ccd));
        assert_eq!(mix(key), FREE);
        let mut out = [Bool::from(false); 2];
        is_member(&[key as i64, 3], &[5], whole_key, false, &mut out);
        assert_eq!(out.map(Bool::get), [false, false]);
        is_member(&[key as i64, 3], &[5, key as i64], whole_key, false, &mut out);
        assert_eq!(out.map(Bool::get), [true, false]);
    }
}
