//! AES from OpenSSL, the library that TLS comes from.
//!
//! A context has an expanded key and a direction; its IV is set anew for each unit.

use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use openssl_sys as ssl;
use shingle_core::dm::crypt::cipher::unit_words;
use shingle_core::dm::crypt::{CipherError, Ciphers, Iv, Mode, SectorCipher, SoftwareCiphers};

/// AES-XTS and AES-CBC of OpenSSL.
pub(super) struct OpensslCiphers;

impl Ciphers for OpensslCiphers {
    fn sector_cipher(&self, mode: Mode, key: &[u8]) -> Result<Box<dyn SectorCipher>, CipherError> {
        let constant: unsafe extern "C" fn() -> *const ssl::EVP_CIPHER = match (mode, key.len()) {
            (Mode::AesXts, 32) if key[..16] != key[16..] => ssl::EVP_aes_128_xts,
            (Mode::AesXts, 64) if key[..32] != key[32..] => ssl::EVP_aes_256_xts,
            (Mode::AesCbc, 16) => ssl::EVP_aes_128_cbc,
            (Mode::AesCbc, 24) => ssl::EVP_aes_192_cbc,
            (Mode::AesCbc, 32) => ssl::EVP_aes_256_cbc,
            // OpenSSL has no AES-192-XTS, and refuses XTS keys with equal halves, which the kernel takes.
            _ => return SoftwareCiphers.sector_cipher(mode, key),
        };
        ssl::init();
        // SAFETY: these functions take nothing and return a pointer to a constant of the library.
        let cipher = unsafe { constant() };
        let context = |encrypt| Context::new(cipher, key, encrypt);
        match (context(true), context(false)) {
            (Some(encrypt), Some(decrypt)) => Ok(Box::new(Evp { encrypt, decrypt })),
            // Out of memory, or a configuration of OpenSSL without this cipher.
            _ => SoftwareCiphers.sector_cipher(mode, key),
        }
    }
}

struct Evp {
    encrypt: Context,
    decrypt: Context,
}

impl SectorCipher for Evp {
    fn encrypt(&mut self, ivs: &[Iv], from: &[AtomicU64], to: &[AtomicU64]) {
        self.encrypt.run(ivs, from, to);
    }

    fn decrypt(&mut self, ivs: &[Iv], from: &[AtomicU64], to: &[AtomicU64]) {
        self.decrypt.run(ivs, from, to);
    }
}

/// A cipher with its key, in one direction.
struct Context(NonNull<ssl::EVP_CIPHER_CTX>);

impl Context {
    /// `key` has the length that `cipher`, one of this library's constants, takes.
    fn new(cipher: *const ssl::EVP_CIPHER, key: &[u8], encrypt: bool) -> Option<Self> {
        // SAFETY: takes nothing; null means that there is no memory.
        let context = Self(NonNull::new(unsafe { ssl::EVP_CIPHER_CTX_new() })?);
        // SAFETY: asks a constant of the library for a number.
        let key_bytes = unsafe { ssl::EVP_CIPHER_key_length(cipher) } as usize;
        assert_eq!(key_bytes, key.len(), "the cipher was chosen by the length of the key");
        // SAFETY: the context is ours alone, the key has as many bytes as are read, and no engine and no IV are asked
        // for.
        let ok = unsafe {
            ssl::EVP_CipherInit_ex(
                context.0.as_ptr(),
                cipher,
                ptr::null_mut(),
                key.as_ptr(),
                ptr::null(),
                encrypt.into(),
            )
        };
        if ok != 1 {
            return None;
        }
        // SAFETY: the context is ours alone. Without padding an update leaves no block for later.
        unsafe { ssl::EVP_CIPHER_CTX_set_padding(context.0.as_ptr(), 0) };
        Some(context)
    }

    fn run(&mut self, ivs: &[Iv], from: &[AtomicU64], to: &[AtomicU64]) {
        let words = unit_words(ivs.len(), from, to);
        for (n, iv) in ivs.iter().enumerate() {
            let unit = n * words..(n + 1) * words;
            self.run_unit(iv, &from[unit.clone()], &to[unit]);
        }
    }

    /// `from` and `to` are equally long and whole blocks.
    #[inline]
    fn run_unit(&mut self, iv: &Iv, from: &[AtomicU64], to: &[AtomicU64]) {
        let context = self.0.as_ptr();
        let bytes = c_int::try_from(size_of_val(from)).expect("a unit has 4 KiB at the most");
        let mut written = 0;
        // SAFETY: the context was set up by `new` and is borrowed mutably. Both ciphers have IVs of 16 bytes, which are
        // copied; the key stays as it is, and -1 keeps the direction.
        let fresh =
            unsafe { ssl::EVP_CipherInit_ex(context, ptr::null(), ptr::null_mut(), ptr::null(), iv.as_ptr(), -1) };
        // SAFETY: both pointers come from slices that are as long as said, borrowed during the call, and all words of
        // which may change under a shared borrow, as they are atomics. This is code outside of the language that moves
        // bytes with plain machine loads and stores, like the kernel during I/O: who changes the memory meanwhile makes
        // the bytes wrong, and no address depends on them. Blocks are read before they are written, so `to` may be
        // `from`. Whole blocks without padding are written at once, so no more than `bytes`.
        let done = unsafe {
            ssl::EVP_CipherUpdate(
                context,
                to.as_ptr().cast::<u8>().cast_mut(),
                &raw mut written,
                from.as_ptr().cast(),
                bytes,
            )
        };
        assert!(fresh == 1 && done == 1 && written == bytes, "a cipher with key and IV takes whole blocks");
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it came from EVP_CIPHER_CTX_new and nobody else has it. The library wipes what it frees.
        unsafe { ssl::EVP_CIPHER_CTX_free(self.0.as_ptr()) };
    }
}
