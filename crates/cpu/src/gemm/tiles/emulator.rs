//! AMX on a processor without it: its instructions are not valid there, and the signal handler does what they would have
//! done, as Intel's manual says (Software Developer's Manual, volume 2). So the kernels' own bytes are tested anywhere.

use flambeau_base::fast_paths::FastPath;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, Once};

/// The tiles of a thread, rows of 64 bytes.
type Registers = [[[u8; 64]; 16]; 8];

thread_local! {
    static TILES: UnsafeCell<Registers> = const { UnsafeCell::new([[[0; 64]; 16]; 8]) };
}
static ON: AtomicBool = AtomicBool::new(false);
/// Instructions done here.
static DONE: AtomicUsize = AtomicUsize::new(0);

/// Whether tiles are there because of this module.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Calls `f` with tiles and with the fast path that uses them, one caller after the other, and gives how many instructions of
/// theirs the processor did not have meanwhile. Other threads have both too, which their results must not depend on.
pub fn with_tiles(path: FastPath, f: impl FnOnce()) -> usize {
    static ALONE: Mutex<()> = Mutex::new(());
    static INSTALL: Once = Once::new();
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    INSTALL.call_once(|| {
        // SAFETY: the handler keeps to what signals may do: it touches registers, and memory of its thread.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_invalid_instruction;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut()), 0);
        }
    });
    let was = path.set(true);
    ON.store(true, Ordering::Relaxed);
    let before = DONE.load(Ordering::Relaxed);
    f();
    ON.store(false, Ordering::Relaxed);
    path.set(was);
    DONE.load(Ordering::Relaxed) - before
}

extern "C" fn on_invalid_instruction(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system passes the thread's registers; the instruction pointer points to the instruction.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let rip = registers[libc::REG_RIP as usize];
        match TILES.with(|tiles| run(&mut *tiles.get(), rip as *const u8, registers)) {
            Some(length) => {
                registers[libc::REG_RIP as usize] = rip + length as i64;
                DONE.fetch_add(1, Ordering::Relaxed);
            }
            // Not one of ours: let it end the process, as it would have.
            None => {
                libc::signal(libc::SIGILL, libc::SIG_DFL);
            }
        }
    }
}

/// Does what the instruction at `code` would; gives its length, or nothing if it is none of AMX.
unsafe fn run(tiles: &mut Registers, code: *const u8, registers: &[i64; 23]) -> Option<usize> {
    // SAFETY: instructions are up to 15 bytes, and these end before that; operands are those of the kernels.
    unsafe {
        let byte = |i: usize| *code.add(i);
        // A prefix of three bytes, the second opcode map, W = 0, vectors of 128 bits.
        if byte(0) != 0xc4 || byte(1) & 0x1f != 2 || byte(2) & 0x84 != 0 {
            return None;
        }
        let (extend_index, extend_base) = (usize::from(byte(1) & 0x40 == 0), usize::from(byte(1) & 0x20 == 0));
        let third = (!byte(2) >> 3 & 15) as usize;
        let (prefix, opcode, operand) = (byte(2) & 3, byte(3), byte(4));
        let (kind, reg, rm) = (operand >> 6, (operand >> 3 & 7) as usize, (operand & 7) as usize);
        match (opcode, prefix, kind) {
            (0x49, 0, 3) => return Some(5),
            (0x49, 3, 3) => {
                tiles[reg].as_flattened_mut().fill(0);
                return Some(5);
            }
            (0x5c, 2, 3) | (0x5e, _, 3) => {
                multiply(tiles, (opcode, prefix), reg, rm, third);
                return Some(5);
            }
            (0x49 | 0x4b, _, 0..3) => {}
            _ => return None,
        }
        let (address, stride, length) = memory(code, kind, rm, extend_index, extend_base, registers)?;
        match (opcode, prefix) {
            (0x49, 0) => {
                let configuration = std::slice::from_raw_parts(address as *const u8, 64);
                assert_eq!(configuration[0], 1);
                assert!(configuration[16..32].chunks(2).all(|columns| columns == [64, 0]));
                assert!(configuration[48..56].iter().all(|&rows| rows == 16));
                tiles.as_flattened_mut().as_flattened_mut().fill(0);
            }
            (0x4b, 3) => {
                for (i, row) in tiles[reg].iter_mut().enumerate() {
                    *row = *((address + i as i64 * stride) as *const [u8; 64]);
                }
            }
            (0x4b, 2) => {
                for (i, row) in tiles[reg].iter().enumerate() {
                    *((address + i as i64 * stride) as *mut [u8; 64]) = *row;
                }
            }
            _ => return None,
        }
        Some(length)
    }
}

/// The address of a memory operand, its index register (the stride of rows), and the instruction's length.
unsafe fn memory(
    code: *const u8,
    kind: u8,
    rm: usize,
    extend_index: usize,
    extend_base: usize,
    registers: &[i64; 23],
) -> Option<(i64, i64, usize)> {
    use libc::{REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    use libc::{REG_RAX, REG_RBP, REG_RBX, REG_RCX, REG_RDI, REG_RDX, REG_RSI, REG_RSP};
    const ORDER: [i32; 16] = [
        REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8, REG_R9, REG_R10, REG_R11,
        REG_R12, REG_R13, REG_R14, REG_R15,
    ];
    let register = |i: usize| registers[ORDER[i] as usize];
    // SAFETY: bytes of the instruction.
    let byte = |i: usize| unsafe { *code.add(i) };
    let (mut length, mut stride, mut base) = (5, 0, rm);
    if rm == 4 {
        let sib = byte(5);
        length = 6;
        base = (sib & 7) as usize;
        let index = (sib >> 3 & 7) as usize + 8 * extend_index;
        if index != 4 {
            stride = register(index) << (sib >> 6);
        }
    }
    // Without a displacement, this base means another thing, which no kernel has.
    if kind == 0 && base == 5 {
        return None;
    }
    let displacement = match kind {
        0 => 0,
        1 => byte(length) as i8 as i64,
        _ => i32::from_le_bytes(std::array::from_fn(|i| byte(length + i))) as i64,
    };
    Some((register(base + 8 * extend_base) + displacement, stride, length + [0, 1, 4][kind as usize]))
}

/// Zero for what is subnormal, on the way in and out.
fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}

/// Tile `c` plus the product of tiles `a` and `b`.
fn multiply(tiles: &mut Registers, instruction: (u8, u8), c: usize, a: usize, b: usize) {
    let lane = |tile: &[[u8; 64]; 16], row: usize, i: usize| -> [u8; 4] {
        std::array::from_fn(|byte| tile[row][4 * i + byte])
    };
    let half = |lane: [u8; 4], i: usize| {
        flushed(f32::from_bits(u32::from(u16::from_le_bytes([lane[2 * i], lane[2 * i + 1]])) << 16))
    };
    let number = |byte: u8, signed: bool| if signed { byte as i8 as i32 } else { byte as i32 };
    for row in 0..16 {
        for column in 0..16 {
            let old = lane(&tiles[c], row, column);
            let new = if instruction.0 == 0x5c {
                // Even and odd steps are added up apart, and then together.
                let mut sums = [0f32; 2];
                for step in 0..16 {
                    let (x, y) = (lane(&tiles[a], row, step), lane(&tiles[b], step, column));
                    for (i, sum) in sums.iter_mut().enumerate() {
                        *sum = flushed(half(x, i).mul_add(half(y, i), *sum));
                    }
                }
                flushed(flushed(f32::from_le_bytes(old)) + flushed(sums[0] + sums[1])).to_le_bytes()
            } else {
                // No prefix: both without sign; 66: the second has one; F3: the first; F2: both.
                let (first, second) = (instruction.1 >= 2, matches!(instruction.1, 1 | 3));
                let mut sum = i32::from_le_bytes(old);
                for step in 0..16 {
                    let (x, y) = (lane(&tiles[a], row, step), lane(&tiles[b], step, column));
                    for (x, y) in x.into_iter().zip(y) {
                        sum = sum.wrapping_add(number(x, first) * number(y, second));
                    }
                }
                sum.to_le_bytes()
            };
            tiles[c][row][4 * column..4 * column + 4].copy_from_slice(&new);
        }
    }
}
