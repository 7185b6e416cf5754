//! What any provider of ciphers is held to: the kernel's own output, published vectors, and the definitions of the
//! modes.
//!
//! The fixtures are what dm-crypt of Linux 7.2.12 wrote to a device of 16 KiB when `crypt_plain.bin` was written to it,
//! with the key bytes 00, 01, 02 and so on.
#![allow(dead_code, reason = "each program uses its part")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shingle_core::dm::crypt::{CipherSpec, Ciphers, Iv, IvMode, Key, Mode, Units, VolumeCipher};
use shingle_core::random::Rng;

/// One fixture: the table that made it, and where on the device the data lies.
pub struct Vector {
    pub file: &'static str,
    pub cipher: &'static str,
    pub key_bytes: u8,
    pub units: Units,
    /// Sectors of the device before the volume.
    pub start: u64,
}

const fn vector(
    file: &'static str,
    cipher: &'static str,
    key_bytes: u8,
    units: (u32, u64, bool),
    start: u64,
) -> Vector {
    let (bytes, iv_offset, large) = units;
    Vector { file, cipher, key_bytes, units: Units { bytes, iv_offset, large }, start }
}

pub const KERNEL: [Vector; 5] = [
    vector("crypt_xts_plain64.bin", "aes-xts-plain64", 64, (512, 0, false), 0),
    vector("crypt_xts_plain64_ivoff7_start8.bin", "aes-xts-plain64", 64, (512, 7, false), 8),
    vector("crypt_xts_plain64_4k.bin", "aes-xts-plain64", 64, (4096, 0, false), 0),
    vector("crypt_xts_plain64_4k_large.bin", "aes-xts-plain64", 64, (4096, 8, true), 0),
    vector("crypt_cbc_essiv.bin", "aes-cbc-essiv:sha256", 32, (512, 0, false), 0),
];

pub fn fixture(file: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/fixtures/dm-crypt");
    fs::read(folder.join(file)).unwrap()
}

/// The key 00, 01, 02 and so on.
pub fn counting_key(bytes: u8) -> Key {
    Key::new((0..bytes).collect())
}

fn hex(text: &str) -> Vec<u8> {
    Key::from_hex(text).unwrap().bytes().to_vec()
}

pub fn words(bytes: &[u8]) -> Vec<AtomicU64> {
    bytes.as_chunks().0.iter().map(|word| AtomicU64::new(u64::from_ne_bytes(*word))).collect()
}

pub fn bytes(words: &[AtomicU64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect()
}

/// Everything below.
pub fn hold(provider: &dyn Ciphers) {
    the_kernels_output_comes_out_bit_for_bit(provider);
    published_vectors_come_out(provider);
    xts_is_what_its_definition_says(provider);
    ivs_are_what_their_definitions_say(provider);
    units_take_turns_with_the_keys(provider);
    a_key_of_another_length_is_refused(provider);
}

fn the_kernels_output_comes_out_bit_for_bit(provider: &dyn Ciphers) {
    let plain = fixture("crypt_plain.bin");
    for vector in &KERNEL {
        let spec = CipherSpec::parse(vector.cipher).unwrap();
        let mut volume = VolumeCipher::new(&spec, vector.units, &counting_key(vector.key_bytes), provider).unwrap();
        let (from, to) = (words(&plain), words(&vec![0; plain.len()]));
        volume.encrypt(0, &from, &to);
        let at = vector.start as usize * 512;
        assert!(bytes(&to) == fixture(vector.file)[at..at + plain.len()], "{}", vector.file);
        assert!(bytes(&from) == plain, "{}: the source changed", vector.file);
        volume.decrypt(0, &to);
        assert!(bytes(&to) == plain, "{}: decrypted", vector.file);
    }
}

/// One unit of `plain`, encrypted; and decrypted again to see that it comes back.
fn encrypt(provider: &dyn Ciphers, mode: Mode, key: &[u8], iv: Iv, plain: &[u8]) -> Vec<u8> {
    let mut cipher = provider.sector_cipher(mode, key).unwrap();
    let data = words(plain);
    cipher.encrypt(&[iv], &data, &data);
    let encrypted = bytes(&data);
    cipher.decrypt(&[iv], &data, &data);
    assert_eq!(bytes(&data), plain, "{mode} with a key of {} bytes", key.len());
    encrypted
}

/// NIST SP 800-38A, appendix F.2, first block; IEEE 1619-2018, annex B, vectors 1 and 10 (of which the first block).
fn published_vectors_come_out(provider: &dyn Ciphers) {
    let counting: Iv = std::array::from_fn(|n| n as u8);
    let nist = "6bc1bee22e409f96e93d7e117393172a";
    for (key, expected) in [
        ("2b7e151628aed2a6abf7158809cf4f3c", "7649abac8119b246cee98e9b12e9197d"),
        ("8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b", "4f021db243bc633d7178183a9fa071e8"),
        ("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", "f58c4c04d6e5f1ba779eabfb5f7bfbd6"),
    ] {
        assert_eq!(encrypt(provider, Mode::AesCbc, &hex(key), counting, &hex(nist)), hex(expected), "{key}");
    }
    let equal_halves = encrypt(provider, Mode::AesXts, &[0; 32], [0; 16], &[0; 32]);
    assert_eq!(equal_halves, hex("917cf69ebd68b2ec9b9fe9a3eadda692cd43d2f59598ed858c02c2652fbf922e"));
    let key = hex(concat!(
        "2718281828459045235360287471352662497757247093699959574966967627",
        "3141592653589793238462643383279502884197169399375105820974944592"
    ));
    let mut tweak = [0; 16];
    tweak[0] = 0xff;
    let unit: Vec<u8> = (0..512).map(|n| n as u8).collect();
    let encrypted = encrypt(provider, Mode::AesXts, &key, tweak, &unit);
    assert_eq!(encrypted[..16], hex("1c3b3a102f770386e4836c99e370cf9b"));
}

/// One block of AES alone: CBC of one block with an IV of zeroes.
fn block(provider: &dyn Ciphers, key: &[u8], plain: u128) -> u128 {
    let encrypted = encrypt(provider, Mode::AesCbc, key, [0; 16], &plain.to_le_bytes());
    u128::from_le_bytes(encrypted.try_into().unwrap())
}

/// XTS, block by block, as IEEE 1619-2018 section 5.3 writes it down.
fn xts_is_what_its_definition_says(provider: &dyn Ciphers) {
    let mut rng = Rng::new(1619);
    for key_bytes in Mode::AesXts.key_bytes() {
        let key = random_bytes(&mut rng, key_bytes);
        let plain = random_bytes(&mut rng, 1024);
        let iv: Iv = random_bytes(&mut rng, 16).try_into().unwrap();
        let (data_key, tweak_key) = key.split_at(key_bytes / 2);
        let mut tweak = block(provider, tweak_key, u128::from_le_bytes(iv));
        let mut expected = vec![];
        for plain in plain.as_chunks().0 {
            let masked = block(provider, data_key, u128::from_le_bytes(*plain) ^ tweak) ^ tweak;
            expected.extend(masked.to_le_bytes());
            let carry = if tweak >> 127 == 1 { 0x87 } else { 0 };
            tweak = tweak << 1 ^ carry;
        }
        assert_eq!(encrypt(provider, Mode::AesXts, &key, iv, &plain), expected, "a key of {key_bytes} bytes");
    }
}

/// The IV of `mode` for the unit at sector `number`, from its description alone.
fn iv(provider: &dyn Ciphers, mode: IvMode, key: &[u8], number: u64, unit_bytes: u64) -> Iv {
    let le = u128::from(number).to_le_bytes();
    match mode {
        IvMode::Plain => u128::from(number as u32).to_le_bytes(),
        IvMode::Plain64 => le,
        IvMode::Plain64Be => u128::from(number).to_be_bytes(),
        IvMode::Benbi => u128::from(number * 32 + 1).to_be_bytes(),
        IvMode::EssivSha256 => {
            block(provider, &<sha2::Sha256 as sha2::Digest>::digest(key), u128::from(number)).to_le_bytes()
        }
        IvMode::Eboiv => block(provider, key, u128::from(number) * u128::from(unit_bytes)).to_le_bytes(),
        IvMode::Null => [0; 16],
    }
}

fn ivs_are_what_their_definitions_say(provider: &dyn Ciphers) {
    let mut rng = Rng::new(4);
    let key = random_bytes(&mut rng, 32);
    // Up to the last sector before `plain` comes round, and over it.
    let iv_offset = (1 << 32) - 16;
    for mode in IvMode::ALL {
        for (unit_bytes, large) in [(512, false), (1024, false), (4096, false), (4096, true), (512, true)] {
            let spec = CipherSpec::parse(&format!("aes-cbc-{}", mode.name())).unwrap();
            let units = Units { bytes: unit_bytes, iv_offset, large };
            let mut volume = VolumeCipher::new(&spec, units, &Key::new(key.clone()), provider).unwrap();
            let plain = random_bytes(&mut rng, 128 * 512);
            let (from, to) = (words(&plain), words(&plain));
            volume.encrypt(8, &from, &to);
            let sectors = u64::from(units.sectors());
            for (n, (unit, encrypted)) in
                plain.chunks(unit_bytes as usize).zip(bytes(&to).chunks(unit_bytes as usize)).enumerate()
            {
                let number = 8 + iv_offset + n as u64 * sectors;
                let number = if large { number / sectors } else { number };
                let iv = iv(provider, mode, &key, number, unit_bytes.into());
                let expected = encrypt(provider, Mode::AesCbc, &key, iv, unit);
                assert!(encrypted == expected, "unit {n} of {units:?} with {}", mode.name());
            }
        }
    }
}

fn units_take_turns_with_the_keys(provider: &dyn Ciphers) {
    let keys: Vec<u8> = (0..128).collect();
    let plain: Vec<u8> = random_bytes(&mut Rng::new(5), 16 * 512);
    let units = Units { bytes: 512, iv_offset: 3, large: false };
    let volume = |cipher: &str, keys: &[u8]| {
        let spec = CipherSpec::parse(cipher).unwrap();
        VolumeCipher::new(&spec, units, &Key::new(keys.to_vec()), provider).unwrap()
    };
    let data = words(&plain);
    volume("aes:4-cbc-essiv:sha256", &keys).encrypt(5, &data, &data);
    for (n, (unit, encrypted)) in plain.chunks(512).zip(bytes(&data).chunks(512)).enumerate() {
        let sector = 5 + n as u64;
        let key = (sector + 3) as usize % 4 * 32;
        let unit = words(unit);
        volume("aes-cbc-essiv:sha256", &keys[key..key + 32]).encrypt(sector, &unit, &unit);
        assert!(encrypted == bytes(&unit), "sector {sector}");
    }
}

fn a_key_of_another_length_is_refused(provider: &dyn Ciphers) {
    for mode in Mode::ALL {
        for bytes in (0..80).filter(|bytes| !mode.key_bytes().contains(bytes)) {
            let error = provider.sector_cipher(mode, &vec![1; bytes]).err().unwrap();
            assert_eq!(error.bytes, bytes);
            assert!(error.to_string().contains(mode.name()) && error.to_string().contains("digits"), "{error}");
        }
    }
}

pub fn random_bytes(rng: &mut Rng, count: usize) -> Vec<u8> {
    (0..count).map(|_| rng.draw() as u8).collect()
}
