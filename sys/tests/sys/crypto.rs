//! Every provider of ciphers is held to the same vectors, and to the portable one.

use shingle_core::dm::crypt::{Ciphers, Iv, Mode, SoftwareCiphers};
use shingle_core::random::Rng;
use shingle_sys::crypto::PROVIDERS;

use crate::vectors::{self, bytes, random_bytes, words};

#[test]
fn every_provider_keeps_to_all_vectors() {
    for (name, provider) in PROVIDERS {
        println!("{name}");
        vectors::hold(*provider);
    }
}

#[test]
fn the_portable_ciphers_are_a_provider_of_every_build() {
    assert_eq!(PROVIDERS.last().unwrap().0, "portable");
}

/// One random call: mode, key, IVs and units.
fn agree_once(rng: &mut Rng) {
    let mode = Mode::ALL[rng.below(2) as usize];
    let key_bytes = mode.key_bytes()[rng.below(3) as usize];
    let key = random_bytes(rng, key_bytes);
    let (units, blocks) = (1 + rng.below(80) as usize, 1 + rng.below(256) as usize);
    let ivs: Vec<Iv> = (0..units).map(|_| random_bytes(rng, 16).try_into().unwrap()).collect();
    let plain = random_bytes(rng, units * blocks * 16);
    let run = |provider: &dyn Ciphers, in_place: bool| {
        let mut cipher = provider.sector_cipher(mode, &key).unwrap();
        let from = words(&plain);
        let apart = words(&vec![0; plain.len()]);
        let to = if in_place { &from } else { &apart };
        cipher.encrypt(&ivs, &from, to);
        let encrypted = bytes(to);
        cipher.decrypt(&ivs, to, &from);
        assert!(bytes(&from) == plain, "{mode} did not come back");
        encrypted
    };
    let expected = run(&SoftwareCiphers, false);
    for (name, provider) in PROVIDERS {
        for in_place in [false, true] {
            let same = run(*provider, in_place) == expected;
            assert!(same, "{name}: {mode}, {units} units of {blocks} blocks, in place: {in_place}");
        }
    }
}

#[test]
fn all_providers_give_the_same_bytes_for_random_keys_ivs_and_lengths() {
    let mut rng = Rng::new(20);
    (0..300).for_each(|_| agree_once(&mut rng));
}
