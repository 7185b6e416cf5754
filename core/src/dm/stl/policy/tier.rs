//! Which runs become one: newest ones of about one size, so that each block is written again a few times only, however many runs there have been.

/// The first of the newest runs, of these sizes, that are to become one: `least` at least, of which none has more than half of what all have.
#[must_use]
pub fn tier(sizes: &[usize], least: usize) -> Option<usize> {
    let least = least.max(2);
    let is_even = |first: &usize| {
        let all = sizes[*first..].iter().sum::<usize>();
        sizes[*first..].iter().all(|size| 2 * size <= all)
    };
    (0..=sizes.len().checked_sub(least)?).rev().find(is_even)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;
    use std::vec::Vec;

    #[test]
    fn as_many_runs_of_one_size_as_it_takes_become_one_and_a_large_one_waits_for_its_like() {
        assert_eq!(
            [tier(&[], 8), tier(&[1; 7], 8), tier(&[1; 8], 8), tier(&[1; 9], 8)],
            [None, None, Some(0), Some(1)]
        );
        assert_eq!(tier(&[8, 1, 1, 1, 1, 1, 1, 1], 8), None);
        assert_eq!(tier(&[8, 1, 1, 1, 1, 1, 1, 1, 1], 8), Some(1));
        assert_eq!(tier(&[8; 8], 8), Some(0));
    }

    #[test]
    fn there_are_few_runs_at_any_time_and_what_is_in_them_was_written_a_few_times() {
        for most in [1, 5, 1000] {
            let (mut rng, mut runs, mut written, mut all) = (Rng::new(1), Vec::new(), 0, 0);
            for _ in 0..200 {
                runs.push(1 + rng.below(most) as usize);
                all += runs[runs.len() - 1];
                if let Some(first) = tier(&runs, 8) {
                    let one: usize = runs.drain(first..).sum();
                    runs.push(one);
                    written += one;
                }
                assert!(runs.len() <= 24, "{runs:?}");
            }
            assert!(written <= 4 * all, "{written} were written for {all}");
        }
    }
}
