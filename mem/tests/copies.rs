//! Every access beside the plain loop that it is specified as.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Words of the memory in these tests: longer than every threshold.
const WORDS: usize = 2048;

/// Words of which each byte is another one than its neighbours.
fn pattern(words: usize, salt: u8) -> Vec<u8> {
    (0..words * 8).map(|n| (n as u8).wrapping_mul(31) ^ (n >> 8) as u8 ^ salt).collect()
}

fn shared(bytes: &[u8]) -> Vec<AtomicU64> {
    bytes.chunks(8).map(|word| AtomicU64::new(u64::from_ne_bytes(word.try_into().unwrap()))).collect()
}

fn bytes_of(words: &[AtomicU64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect()
}

fn lengths() -> impl Iterator<Item = usize> {
    (0..=300).chain([511, 512, 513, 1023, 2047, 2048, 2055, 4088, 4095, 4096, 4097, 8191, 12_345])
}

#[test]
fn bytes_are_read_and_written_at_every_alignment_of_both_ends_and_none_beside_them() {
    let (old, new) = (pattern(WORDS, 0), pattern(WORDS, 0x5a));
    let words = shared(&old);
    for len in lengths() {
        for (at, place) in (0..16).flat_map(|at| (0..16).map(move |place| (at, place))) {
            let mut read = new.clone();
            shingle_mem::read(&words, at, &mut read[place..place + len]);
            let mut expected = new.clone();
            expected[place..place + len].copy_from_slice(&old[at..at + len]);
            assert!(read == expected, "{len} bytes read at {at} to {place}");

            shingle_mem::write(&words, at, &new[place..place + len]);
            let mut expected = old.clone();
            expected[at..at + len].copy_from_slice(&new[place..place + len]);
            // Around the range: all of it would take long.
            let end = (at + len).div_ceil(8) + 2;
            assert!(bytes_of(&words[..end]) == expected[..end * 8], "{len} bytes written at {at} from {place}");
            words[..end].iter().zip(old.chunks(8)).for_each(|(word, old)| {
                word.store(u64::from_ne_bytes(old.try_into().unwrap()), Relaxed);
            });
        }
    }
    assert!(bytes_of(&words) == old);
}

#[test]
fn words_are_copied_loaded_stored_and_filled_at_every_alignment_and_none_beside_them() {
    let (old, new) = (pattern(WORDS, 0), pattern(WORDS, 0x5a));
    let from = shared(&new);
    let number = |bytes: &[u8]| -> Vec<u64> {
        bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
    };
    let (old_words, new_words) = (number(&old), number(&new));
    for len in lengths().filter(|len| len + 20 <= WORDS) {
        for (at, place) in (0..8).flat_map(|at| (0..8).map(move |place| (at, place))) {
            let mut expected = old_words.clone();
            expected[at..at + len].copy_from_slice(&new_words[place..place + len]);
            let copied = shared(&old);
            shingle_mem::copy(&copied[at..at + len], &from[place..place + len]);
            assert!(number(&bytes_of(&copied)) == expected, "{len} words copied to {at} from {place}");
            let stored = shared(&old);
            shingle_mem::store(&stored[at..at + len], &new_words[place..place + len]);
            assert!(number(&bytes_of(&stored)) == expected, "{len} words stored at {at} from {place}");
            let mut loaded = old_words.clone();
            shingle_mem::load(&mut loaded[at..at + len], &from[place..place + len]);
            assert!(loaded == expected, "{len} words loaded to {at} from {place}");
        }
        let filled = shared(&old);
        shingle_mem::fill(&filled[len % 8..][..len], 7);
        let mut expected = old_words.clone();
        expected[len % 8..][..len].fill(7);
        assert!(number(&bytes_of(&filled)) == expected, "{len} words filled");
    }
}

#[test]
fn what_others_write_meanwhile_is_copied_as_whole_words_old_or_new() {
    const OLD: u64 = 0x1111_1111_1111_1111;
    const NEW: u64 = 0xeeee_eeee_eeee_eeee;
    let is_whole = |word: &u64| [OLD, NEW].contains(word);
    for words in [16, 64, 300, 512, 2048] {
        // Not at the start of a line: wide moves cross its end.
        let (from, to) = (shared(&pattern(words + 3, 0)), shared(&pattern(words + 5, 0)));
        let (from, to) = (&from[3..], &to[5..]);
        [from, to].into_iter().for_each(|words| shingle_mem::fill(words, OLD));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    [NEW, OLD].into_iter().for_each(|word| shingle_mem::fill(from, word));
                    from.iter().for_each(|to| to.store(NEW, Relaxed));
                }
            });
            // What arrives is looked at while it does.
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    assert!(to.iter().map(|word| word.load(Relaxed)).all(|word| is_whole(&word)));
                }
            });
            let (mut loaded, mut are_whole) = (vec![0; words], true);
            for _ in 0..2_000 {
                shingle_mem::copy(to, from);
                shingle_mem::load(&mut loaded, from);
                are_whole &= loaded.iter().all(is_whole);
            }
            is_over.store(true, Relaxed);
            assert!(are_whole, "a torn word among {words}");
        });
    }
}

#[test]
fn memory_that_cannot_be_had_is_none_and_what_can_is_zeroed() {
    assert!(shingle_mem::zeroed(usize::MAX / 8).is_none() && shingle_mem::zeroed(usize::MAX).is_none());
    for words in [0, 1, 513, 100_000] {
        let memory = shingle_mem::zeroed(words).unwrap();
        assert!(memory.len() == words && memory.iter().all(|word| word.load(Relaxed) == 0));
    }
}

#[test]
fn words_are_appended_behind_those_that_are_there() {
    let (mut to, mut expected) = (Vec::new(), Vec::new());
    for len in [0, 3, 16, 17, 100, 512, 4096] {
        let words: Vec<u64> = (0..len).map(|word| word * 0x0101_0101_0101 + len).collect();
        let from: Vec<AtomicU64> = words.iter().map(|word| AtomicU64::new(*word)).collect();
        shingle_mem::append(&mut to, &from);
        expected.extend(words);
        assert!(to == expected, "{len} more");
    }
}

#[test]
fn an_access_beyond_the_end_panics() {
    let words = shared(&pattern(4, 0));
    let panics = |access: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(access)).is_err();
    for (at, len) in [(25, 8), (0, 33), (32, 1), (31, 2), (33, 1), (usize::MAX, 2)] {
        assert!(panics(&|| shingle_mem::read(&words, at, &mut vec![0; len])), "{len} bytes read at {at}");
        assert!(panics(&|| shingle_mem::write(&words, at, &vec![0; len])), "{len} bytes written at {at}");
    }
    assert!(panics(&|| shingle_mem::copy(&words, &words[1..])));
    assert!(panics(&|| shingle_mem::store(&words, &[0; 5])));
    assert!(panics(&|| shingle_mem::load(&mut [0; 3], &words)));
}

#[test]
fn writers_of_neighbouring_bytes_do_not_undo_each_other() {
    let words = shared(&[0; 16]);
    let all_are_there = Barrier::new(3);
    let sees_its_own = |at: usize| {
        let mut bytes = [0; 3];
        all_are_there.wait();
        for n in 0..1_000_000_u32 {
            shingle_mem::write(&words, at, &n.to_ne_bytes()[..3]);
            shingle_mem::read(&words, at, &mut bytes);
            assert_eq!(bytes, n.to_ne_bytes()[..3], "written at {at}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| sees_its_own(3));
        scope.spawn(|| sees_its_own(6));
        sees_its_own(0);
    });
}
