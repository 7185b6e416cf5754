//! A whole shard with NBD connections over a file, on a ring that is simulated: sockets that are cut anywhere, that fail or
//! never answer; an operator who changes where clients come and how they are treated; clients that vanish in the middle of a request; disks that are late and fail. Clients compare what they get
//! with a model, and when all is over nothing of anybody is left.
//!
//! The guards of a connection are taken away one at a time, and the same seeds have to notice.
//! `SWARM_FIRST=100000 SWARM_SEEDS=5000 cargo test -p shingle-host --test swarm nbd_swarm` runs other seeds.

use crate::simulated::net::Bug;
use crate::simulated::serving::run;
use crate::simulated::worlds::number;

#[test]
fn every_request_has_one_whole_answer_and_nothing_of_a_dead_client_stays() {
    let (first, seeds) = (number("SWARM_FIRST").unwrap_or(0), number("SWARM_SEEDS").unwrap_or(100));
    let (mut replies, mut ended, mut stuck) = (0, 0, 0);
    for seed in first..first + seeds {
        let tally = run(seed, Bug::None).unwrap();
        (replies, ended) = (replies + tally.replies, ended + tally.ended);
        stuck += u64::from(tally.stuck);
    }
    println!("{replies} replies, {ended} connections that ended badly, {stuck} stops over a stuck disk");
    assert!(replies > 20 * seeds && ended > seeds && stuck > 0);
}

/// The ring refuses a send, and the memory that comes back with it lets a request in that nobody would do any more.
#[test]
fn a_connection_whose_send_is_refused_while_it_waits_for_memory_ends() {
    run(103_137, Bug::None).unwrap();
}

#[test]
fn one_seed_is_one_run() {
    for seed in 0..5 {
        assert_eq!(run(seed, Bug::None).unwrap(), run(seed, Bug::None).unwrap());
    }
}

/// A bug that some seed has to notice.
macro_rules! planted {
    ($name:ident, $bug:ident) => {
        #[test]
        fn $name() {
            let found = (0..60).find_map(|seed| run(seed, Bug::$bug).err());
            println!("{found:?}");
            assert!(found.is_some());
        }
    };
}

planted!(a_short_send_taken_for_a_whole_one_is_found, ShortSend);
planted!(a_short_send_that_begins_again_is_found, RepeatedSend);
planted!(a_short_payload_taken_for_a_whole_one_is_found, ShortReceive);
planted!(an_interrupted_send_taken_for_a_done_one_is_found, InterruptedSend);
planted!(a_connection_that_is_cut_and_not_cancelled_is_found, NoCancel);
planted!(an_address_that_is_left_and_lets_clients_in_is_found, NotLeft);
