//! Matrix products in tiles: AMX. A tile is 16 rows of 64 bytes, a register of its own; one instruction multiplies sixteen
//! rows of A by sixteen columns of B over sixteen lanes of steps, 32 of `bf16` or 64 bytes.
//!
//! The instructions are written out, since the standard library has none of them. The compiler never uses tiles itself.

#[cfg(not(target_arch = "x86_64"))]
pub use absent::Tiles;
#[cfg(target_arch = "x86_64")]
pub use amx::{Tiles, of_bytes, of_halves};

/// Nothing of it.
#[cfg(not(target_arch = "x86_64"))]
mod absent {
    /// Tiles that are ready for use, of which there are none.
    pub struct Tiles;
    impl Tiles {
        /// # Safety
        /// Never called.
        pub unsafe fn configure() -> Tiles {
            Tiles
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod amx {
    use super::super::groups::{GroupKernels, pack_bytes, pack_halves};
    use super::super::kernel::{Block, Kernel, KernelLane};
    use super::super::operand::{Byte, Entry};
    use super::super::simd::Lane;
    use crate::buffer::aligned;
    use crate::math::Level;
    use std::arch::asm;
    use std::marker::PhantomData;
    use std::mem::MaybeUninit;
    use std::sync::OnceLock;

    /// Rows of a tile, lanes of one of its rows.
    const SIDE: usize = 16;

    /// Tiles of the processor that are ready for use by this thread; dropped, they are released.
    pub struct Tiles(PhantomData<*mut ()>);

    impl Tiles {
        /// All eight tiles, sixteen rows of 64 bytes each.
        ///
        /// # Safety
        /// The processor must have tiles, and the system let the process use them.
        pub unsafe fn configure() -> Tiles {
            let mut configuration = aligned([0u8; 64]);
            configuration[0] = 1;
            for tile in 0..8 {
                configuration[16 + 2 * tile] = 64;
                configuration[48 + tile] = SIDE as u8;
            }
            // SAFETY: the caller's promise; the configuration is 64 bytes of the first palette.
            unsafe { asm!("ldtilecfg [{}]", in(reg) configuration.as_ptr(), options(nostack, preserves_flags)) };
            Tiles(PhantomData)
        }
    }

    impl Drop for Tiles {
        fn drop(&mut self) {
            // SAFETY: tiles were configured, so they are there.
            unsafe { asm!("tilerelease", options(nostack, preserves_flags)) };
        }
    }

    /// Sets tile `T` to zero.
    #[inline(always)]
    unsafe fn zero<const T: u8>() {
        // SAFETY: the caller has configured tiles.
        unsafe { asm!("tilezero tmm{}", const T, options(nostack, preserves_flags)) };
    }

    /// Loads tile `T`: sixteen rows of 64 bytes, `stride` bytes apart.
    #[inline(always)]
    unsafe fn load<const T: u8>(from: *const u8, stride: isize) {
        // SAFETY: the caller has configured tiles, and the rows are there.
        unsafe {
            asm!("tileloadd tmm{}, [{} + {}*1]", const T, in(reg) from, in(reg) stride,
                options(nostack, preserves_flags, readonly))
        };
    }

    /// Stores tile `T`: sixteen rows of 64 bytes, `stride` bytes apart.
    #[inline(always)]
    unsafe fn store<const T: u8>(to: *mut u8, stride: isize) {
        // SAFETY: the caller has configured tiles, and there is room for the rows.
        unsafe {
            asm!("tilestored [{} + {}*1], tmm{}", in(reg) to, in(reg) stride, const T, options(nostack, preserves_flags))
        };
    }

    /// What a product is made of.
    trait Dot {
        /// The type of sums.
        type Lane: KernelLane;
        /// Tile `C` plus the product of tiles `A` and `B`.
        unsafe fn dot<const C: u8, const A: u8, const B: u8>();
    }

    macro_rules! dots {
        ($($(#[doc = $doc:expr])* $name:ident: $lane:ty, $instruction:literal;)*) => { $(
            $(#[doc = $doc])*
            struct $name;
            impl Dot for $name {
                type Lane = $lane;
                #[inline(always)]
                unsafe fn dot<const C: u8, const A: u8, const B: u8>() {
                    // SAFETY: the caller has configured tiles.
                    unsafe {
                        asm!(concat!($instruction, " tmm{}, tmm{}, tmm{}"), const C, const A, const B,
                            options(nostack, preserves_flags))
                    };
                }
            }
        )* };
    }
    dots! {
        /// Pairs of `bf16`.
        Halves: f32, "tdpbf16ps";
        /// Bytes with signs.
        Signed: i32, "tdpbssd";
        /// Bytes with signs, and bytes without.
        SignedUnsigned: i32, "tdpbsud";
        /// Bytes without signs, and bytes with.
        UnsignedSigned: i32, "tdpbusd";
        /// Bytes without signs.
        Unsigned: i32, "tdpbuud";
    }

    /// A block of up to `R` by `N` tiles: rows of A one after the other, `b` packed; both have whole tiles of steps.
    ///
    /// # Safety
    /// Tiles are configured; `a` has `16 * R` rows, C the block's rows and columns.
    unsafe fn multiply<D: Dot, const R: usize, const N: usize>(t: &Block<D::Lane>) {
        const ROW: usize = 2 * SIDE;
        let mut buffer = aligned(MaybeUninit::<[D::Lane; ROW * ROW]>::uninit());
        let one = D::Lane::ONE;
        // Tiles go straight to C where it has room for all of them and nothing else is to be done.
        let direct = t.rows == R * SIDE && t.columns == N * SIDE && t.alpha == one && t.beta.is_none_or(|b| b == one);
        let (c, c_row) = if direct { (t.c, t.c_row) } else { (buffer.as_mut_ptr().cast(), ROW as isize) };
        let (c_stride, a_stride, b_stride) = (4 * c_row, 4 * t.a_row, 4 * t.b_step);
        // SAFETY: the caller's block; the buffer has room for four tiles.
        unsafe {
            let below = c.offset(if R == 2 { SIDE as isize * c_row } else { 0 });
            if direct && t.beta.is_some() {
                load::<0>(c.cast(), c_stride);
                if N == 2 {
                    load::<1>(c.add(SIDE).cast(), c_stride);
                }
                if R == 2 {
                    load::<2>(below.cast(), c_stride);
                }
                if R == 2 && N == 2 {
                    load::<3>(below.add(SIDE).cast(), c_stride);
                }
            } else {
                zero::<0>();
                zero::<1>();
                zero::<2>();
                zero::<3>();
            }
            let (mut a, mut b) = (t.a.cast::<u8>(), t.b.cast::<u8>());
            for _ in 0..t.k / SIDE {
                load::<4>(a, a_stride);
                load::<6>(b, b_stride);
                D::dot::<0, 4, 6>();
                if N == 2 {
                    load::<7>(b.add(64), b_stride);
                    D::dot::<1, 4, 7>();
                }
                if R == 2 {
                    load::<5>(a.offset(SIDE as isize * a_stride), a_stride);
                    D::dot::<2, 5, 6>();
                    if N == 2 {
                        D::dot::<3, 5, 7>();
                    }
                }
                a = a.wrapping_add(64);
                b = b.wrapping_offset(SIDE as isize * b_stride);
            }
            store::<0>(c.cast(), c_stride);
            if N == 2 {
                store::<1>(c.add(SIDE).cast(), c_stride);
            }
            if R == 2 {
                store::<2>(below.cast(), c_stride);
            }
            if R == 2 && N == 2 {
                store::<3>(below.add(SIDE).cast(), c_stride);
            }
            if !direct {
                finish(t, c, ROW);
            }
        }
    }

    /// `c = alpha * sums + beta * c` for the block's rows and columns.
    unsafe fn finish<L: Lane>(t: &Block<L>, sums: *const L, sums_row: usize) {
        for r in 0..t.rows {
            for j in 0..t.columns {
                // SAFETY: an element of the sums and of C.
                unsafe {
                    let to = t.c.offset(r as isize * t.c_row).add(j);
                    let product = t.alpha.times(*sums.add(r * sums_row + j));
                    *to = match t.beta {
                        None => product,
                        Some(beta) => product.plus(beta.times(*to)),
                    };
                }
            }
        }
    }

    /// The kernels by rows (up to 32) and vectors.
    const fn table<D: Dot>() -> [[Kernel<D::Lane>; 2]; 2 * SIDE] {
        let one: [Kernel<D::Lane>; 2] = [multiply::<D, 1, 1>, multiply::<D, 1, 2>];
        let mut table = [one; 2 * SIDE];
        let mut rows = SIDE;
        while rows < 2 * SIDE {
            table[rows] = [multiply::<D, 2, 1>, multiply::<D, 2, 2>];
            rows += 1;
        }
        table
    }

    /// Rows one after the other, `width` of them, of `k` steps each and zeros up to a whole tile; rows of zeros up to a
    /// whole tile.
    unsafe fn pack_rows<T: Copy, L>(
        source: *const T,
        across: isize,
        along: isize,
        width: usize,
        _: usize,
        k: usize,
        destination: *mut L,
    ) {
        let destination: *mut T = destination.cast();
        let row = k.next_multiple_of(SIDE * 4 / size_of::<T>());
        /// Steps taken of every row in turn, where rows are neighbours.
        const STEPS: usize = 64;
        // SAFETY: `width` by `k` elements of the source; the destination has whole tiles.
        unsafe {
            for first in (0..k).step_by(if along == 1 { k } else { STEPS }) {
                let steps = if along == 1 { k } else { STEPS.min(k - first) };
                for w in 0..width {
                    let from = source.offset(w as isize * across + first as isize * along);
                    let to = destination.add(w * row + first);
                    if along == 1 {
                        std::ptr::copy_nonoverlapping(from, to, steps);
                    } else {
                        for i in 0..steps {
                            *to.add(i) = *from.offset(i as isize * along);
                        }
                    }
                }
            }
            for w in 0..width {
                std::ptr::write_bytes(destination.add(w * row + k), 0, row - k);
            }
            let all = width.next_multiple_of(SIDE);
            std::ptr::write_bytes(destination.add(width * row), 0, (all - width) * row);
        }
    }

    /// Columns of B, with rows of zeros up to a whole tile.
    macro_rules! pack_columns {
        ($name:ident$(<$g:ident>)?, $t:ty, $lane:ty, $pack:ident, $steps:literal) => {
            unsafe fn $name$(<$g>)?(
                source: *const $t,
                across: isize,
                along: isize,
                width: usize,
                padded: usize,
                k: usize,
                destination: *mut $lane,
            ) {
                let rows = k.div_ceil($steps);
                // SAFETY: forwarded contract; the destination has whole tiles.
                unsafe {
                    $pack(source, across, along, width, padded, k, destination);
                    let missing = rows.next_multiple_of(SIDE) - rows;
                    std::ptr::write_bytes(destination.add(rows * padded), 0, missing * padded);
                }
            }
        };
    }
    pack_columns! { pack_columns_of_halves<T>, T, f32, pack_halves, 2 }
    pack_columns! { pack_columns_of_bytes, Byte, i32, pack_bytes, 4 }

    /// The kernels for `bf16`, where the processor has tiles of them.
    pub fn of_halves<T: Entry<Lane = f32>>(level: Level) -> Option<GroupKernels<T>> {
        static TABLE: [[Kernel<f32>; 2]; 2 * SIDE] = table::<Halves>();
        if !available(level).halves {
            return None;
        }
        Some(GroupKernels {
            steps: 2,
            lanes: SIDE,
            unit: SIDE,
            head: 0,
            tiles: true,
            pack_a: pack_rows,
            pack_b: pack_columns_of_halves,
            pack_rows_of_b: None,
            multiply: &TABLE,
            rounded: None,
            in_place: None,
        })
    }

    /// The kernels for bytes, of which A's or B's may be without sign, where the processor has tiles of them.
    pub fn of_bytes(level: Level, unsigned: [bool; 2]) -> Option<GroupKernels<Byte>> {
        static TABLES: [[[Kernel<i32>; 2]; 2 * SIDE]; 4] =
            [table::<Signed>(), table::<SignedUnsigned>(), table::<UnsignedSigned>(), table::<Unsigned>()];
        if !available(level).bytes {
            return None;
        }
        Some(GroupKernels {
            steps: 4,
            lanes: SIDE,
            unit: SIDE,
            head: 0,
            tiles: true,
            pack_a: pack_rows,
            pack_b: pack_columns_of_bytes,
            pack_rows_of_b: None,
            multiply: &TABLES[2 * unsigned[0] as usize + unsigned[1] as usize],
            rounded: None,
            in_place: None,
        })
    }

    /// Which tiles there are.
    #[derive(Clone, Copy, Default)]
    struct Available {
        halves: bool,
        bytes: bool,
    }

    /// What the processor has and the system lets the process use.
    fn available(level: Level) -> Available {
        #[cfg(all(test, target_os = "linux"))]
        if super::emulator::is_on() {
            return Available { halves: true, bytes: true };
        }
        if level < Level::Avx512 {
            return Available::default();
        }
        static AVAILABLE: OnceLock<Available> = OnceLock::new();
        *AVAILABLE.get_or_init(|| {
            let most = std::arch::x86_64::__cpuid(0).eax;
            let leaf = if most < 7 { 0 } else { std::arch::x86_64::__cpuid_count(7, 0).edx };
            let has = |bit: u32| leaf >> bit & 1 == 1;
            match has(24) && permitted() {
                true => Available { halves: has(22), bytes: has(25) },
                false => Available::default(),
            }
        })
    }

    /// Asks Linux for the use of tiles, which a process has to do once: they make what is saved of a thread larger. Other
    /// systems are not asked, and tiles not used there.
    #[cfg(target_os = "linux")]
    fn permitted() -> bool {
        const ARCH_PRCTL: usize = 158;
        const REQUEST_PERMISSION: usize = 0x1023;
        const TILE_DATA: usize = 18;
        let result: isize;
        // SAFETY: the call takes two numbers and touches no memory of ours; `syscall` writes two registers more.
        unsafe {
            asm!("syscall", inlateout("rax") ARCH_PRCTL => result, in("rdi") REQUEST_PERMISSION, in("rsi") TILE_DATA,
                lateout("rcx") _, lateout("r11") _, options(nostack))
        };
        result == 0
    }
    #[cfg(not(target_os = "linux"))]
    fn permitted() -> bool {
        false
    }
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
pub mod emulator;
