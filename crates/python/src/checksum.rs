//! The checksum of zip files (CRC-32), at the speed of memory where the processor multiplies without carries.

/// The checksum of `data`; none on a processor without the instructions for it.
pub fn crc32(data: &[u8]) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("sse4.1") {
        // SAFETY: the processor has the instructions.
        return Some(!unsafe { folded::update(!0, data) });
    }
    let _ = data;
    None
}

#[cfg(target_arch = "x86_64")]
mod folded {
    use std::arch::x86_64::*;

    /// The polynomial, lowest power in the highest bit.
    const POLYNOMIAL: u32 = 0xedb8_8320;

    /// What a byte adds to the remainder.
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut remainder = byte as u32;
            let mut bit = 0;
            while bit < 8 {
                remainder = (remainder >> 1) ^ if remainder & 1 == 1 { POLYNOMIAL } else { 0 };
                bit += 1;
            }
            table[byte] = remainder;
            byte += 1;
        }
        table
    };

    // Remainders of powers of x: those that carry 128 bits over 512 bits, over 128 bits, and down to 64; the polynomial's
    // quotient, for the last division.
    const OVER_512: (i64, i64) = (0x01_5444_2bd4, 0x01_c6e4_1596);
    const OVER_128: (i64, i64) = (0x01_7519_97d0, 0x00_ccaa_009e);
    const TO_64: (i64, i64) = (0x01_63cd_6124, 0);
    const DIVISION: (i64, i64) = (0x01_db71_0641, 0x01_f701_1641);

    /// The remainder after `data` from that before it.
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    pub fn update(remainder: u32, data: &[u8]) -> u32 {
        let (blocks, rest) = data.as_chunks::<16>();
        let (remainder, rest) = match blocks.split_first_chunk::<4>() {
            Some((first, others)) => (fold(remainder, first, others), rest),
            None => (remainder, data),
        };
        rest.iter().fold(remainder, |sum, byte| (sum >> 8) ^ TABLE[(sum as u8 ^ byte) as usize])
    }

    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn fold(remainder: u32, first: &[[u8; 16]; 4], others: &[[u8; 16]]) -> u32 {
        let [a, b, c, d] = first;
        let mut lanes = [load(a), load(b), load(c), load(d)];
        lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(remainder as i32));
        let (fours, ones) = others.as_chunks::<4>();
        for four in fours {
            for (lane, block) in lanes.iter_mut().zip(four) {
                *lane = carry(*lane, load(block), OVER_512);
            }
        }
        let [mut sum, others @ ..] = lanes;
        for lane in others {
            sum = carry(sum, lane, OVER_128);
        }
        for block in ones {
            sum = carry(sum, load(block), OVER_128);
        }
        // 128 bits to 96, to 64, and the remainder of these.
        let low = _mm_setr_epi32(!0, 0, !0, 0);
        let sum = _mm_xor_si128(_mm_clmulepi64_si128::<0x10>(sum, pair(OVER_128)), _mm_srli_si128::<8>(sum));
        let part = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(sum, low), pair(TO_64));
        let sum = _mm_xor_si128(part, _mm_srli_si128::<4>(sum));
        let quotient = _mm_clmulepi64_si128::<0x10>(_mm_and_si128(sum, low), pair(DIVISION));
        let product = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(quotient, low), pair(DIVISION));
        _mm_extract_epi32::<1>(_mm_xor_si128(sum, product)) as u32
    }

    /// `sum`, carried over a distance, and what lies there.
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    #[inline]
    fn carry(sum: __m128i, block: __m128i, over: (i64, i64)) -> __m128i {
        let by = pair(over);
        let (low, high) = (_mm_clmulepi64_si128::<0x00>(sum, by), _mm_clmulepi64_si128::<0x11>(sum, by));
        _mm_xor_si128(_mm_xor_si128(low, high), block)
    }

    #[target_feature(enable = "sse4.1")]
    #[inline]
    fn pair((low, high): (i64, i64)) -> __m128i {
        _mm_set_epi64x(high, low)
    }

    #[target_feature(enable = "sse4.1")]
    #[inline]
    fn load(block: &[u8; 16]) -> __m128i {
        // SAFETY: sixteen bytes.
        unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
    }
}
