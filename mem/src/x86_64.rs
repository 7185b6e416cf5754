//! The wide instructions of x86-64.
//!
//! What is shared is aligned to its words, so none of its words is torn. Of the string instructions that is their definition:
//! a repetition of moves of 8 bytes, each of which is atomic (Intel SDM vol. 3, "Guaranteed Atomic Operations"; AMD64 APM
//! vol. 2, "Access Atomicity"). Of wider moves the manuals promise it where they are aligned; that it holds of each word
//! elsewhere is what Java's array copies rely on (`stubGenerator_x86_64_arraycopy.cpp:generate_disjoint_long_oop_copy`).

use core::arch::asm;
use core::arch::x86_64::__cpuid;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Bytes of the AVX loop's step, and the least that are worth more than a loop of words.
const STEP: usize = 128;
/// From so many bytes on the string instructions are the fastest, and sooner than loops of words where there is no AVX.
const LONG: usize = 4096;
const LONG_WITHOUT_AVX: usize = 256;

/// Copies so many words, or none. Whether it did.
///
/// # Safety
/// `from` is readable and `to` writable for so many words. Each is either shared with others who use atomic accesses and
/// aligned to 8 bytes, or in the case of `from` not written, of `to` not accessed by others.
#[inline]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, words: usize) -> bool {
    let is_long = words * 8 >= STEP;
    // SAFETY: The caller's promise.
    is_long && unsafe { copy_long(to, from, words) }
}

/// # Safety
/// As of [`copy`].
unsafe fn copy_long(to: *mut u8, from: *const u8, words: usize) -> bool {
    let bytes = words * 8;
    if bytes < LONG && has_avx() {
        // SAFETY: It loads and stores whole steps, at least one, and then the words that are left, for which the caller
        // answers. The registers are those that a function may change.
        unsafe {
            asm!(
                "2:",
                "vmovdqu ymm0, [rsi]",
                "vmovdqu ymm1, [rsi + 32]",
                "vmovdqu ymm2, [rsi + 64]",
                "vmovdqu ymm3, [rsi + 96]",
                "vmovdqu [rdi], ymm0",
                "vmovdqu [rdi + 32], ymm1",
                "vmovdqu [rdi + 64], ymm2",
                "vmovdqu [rdi + 96], ymm3",
                "sub rsi, -{step}",
                "sub rdi, -{step}",
                "dec rcx",
                "jnz 2b",
                "vzeroupper",
                "test rdx, rdx",
                "jz 4f",
                "3:",
                "mov rax, [rsi]",
                "mov [rdi], rax",
                "add rsi, 8",
                "add rdi, 8",
                "dec rdx",
                "jnz 3b",
                "4:",
                step = const STEP,
                inout("rdi") to => _, inout("rsi") from => _,
                inout("rcx") bytes / STEP => _, inout("rdx") words % (STEP / 8) => _,
                clobber_abi("sysv64"), options(nostack),
            );
        }
        return true;
    }
    if bytes >= LONG_WITHOUT_AVX {
        // SAFETY: It moves so many words, for which the caller answers. The direction flag is clear in Rust functions.
        unsafe {
            asm!("rep movsq", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") words => _,
                options(nostack, preserves_flags));
        }
    }
    bytes >= LONG_WITHOUT_AVX
}

/// Stores `word` in so many words, or none. Whether it did.
///
/// # Safety
/// As of [`copy`]'s `to`.
#[inline]
pub(crate) unsafe fn fill(to: *mut u8, word: u64, words: usize) -> bool {
    let is_long = words * 8 >= LONG_WITHOUT_AVX;
    if is_long {
        // SAFETY: It stores so many words, for which the caller answers. The direction flag is clear in Rust functions.
        unsafe {
            asm!("rep stosq", inout("rdi") to => _, inout("rcx") words => _, in("rax") word,
                options(nostack, preserves_flags));
        }
    }
    is_long
}

/// Whether the processor has AVX and the system saves its registers.
fn has_avx() -> bool {
    const NO: u8 = 1;
    const YES: u8 = 2;
    static AVX: AtomicU8 = AtomicU8::new(0);
    match AVX.load(Relaxed) {
        YES => true,
        NO => false,
        _ => {
            let has = ask_for_avx();
            AVX.store(if has { YES } else { NO }, Relaxed);
            has
        }
    }
}

/// Asks the processor (Intel SDM vol. 1, "Detection of Intel AVX Instructions").
#[cold]
fn ask_for_avx() -> bool {
    const OSXSAVE_AND_AVX: u32 = 3 << 27;
    const XMM_AND_YMM: u32 = 6;
    if __cpuid(1).ecx & OSXSAVE_AND_AVX != OSXSAVE_AND_AVX {
        return false;
    }
    let saved: u32;
    // SAFETY: OSXSAVE says that the instruction is there; it only changes these two registers.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") saved, out("edx") _, options(nomem, nostack, preserves_flags));
    }
    saved & XMM_AND_YMM == XMM_AND_YMM
}
