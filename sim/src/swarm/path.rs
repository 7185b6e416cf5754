//! A path to a disk: late, out of order, and given up at any moment, while its commands may still land.
//!
//! ```text
//!   bio ──> on its way there ──> disk ──> on its way back ──> done
//!    │             │               │             └── the answer is lost
//!    │             │               └── given up: what the disk has is carried out
//!    │             └── given up: it never lands, or it lands later
//!    └── refused
//! ```
//!
//! What travels is a bio of the path's own with data of its own, since a bio that was given up belongs to its submitter again. The path
//! knows when nothing of that can land any more, and says so when it is asked, a while later; or it only states a time.
//!
//! It also watches the head: a path that has failed is left alone but for probes, one that cannot reach the disk or was removed gets nothing
//! new, and one that is not optimized nothing while another is that works.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use crate::choices::{Choices, choices_by_name};
use shingle_core::block::{
    AnaState, Bio, BlockDevice, Cx, Data, DeviceId, Event, Limits, Op, PathEvent, Payload, Reason, Silence, Status,
};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};

/// How a path behaves. Rates are of a thousand bios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathHabits {
    /// The shortest and the longest time of one way.
    pub way: [Duration; 2],
    /// Whether what is sent first arrives first.
    pub ordered: bool,
    /// Bios that fail at once.
    pub refused: u64,
    /// Bios that are given up, each alone.
    pub given_up: u64,
    /// Bios at which all that are under way are given up, and the path is down for a while.
    pub dropped: u64,
    /// The longest time that it is down.
    pub down: Duration,
    /// The longest time until a bio is given up.
    pub patience: Duration,
    /// The longest time after that until its command arrives at the disk.
    pub late: Duration,
    /// What it states; under [`Silence::AtOnce`] nothing is given up that can still land.
    pub silence: Silence,
    /// The longest time that an answer to a question takes; `None`: it does not answer.
    pub answer: Option<Duration>,
}

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrives,
    /// It is given up and never lands.
    Lost,
    /// It is given up before it lands.
    Late,
    /// It lands, and is given up since its answer is lost.
    Unanswered,
}

/// What a bio that the path ends failed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    NoAnswer,
    Interrupted,
    Removed,
}

choices_by_name!(Fate, Cause);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    There,
    Below,
    Back,
    /// Nowhere: what is missing is that the bio is given up.
    Gone,
}

struct Command {
    /// Its operation, and its number among those on this path: its name in a recording.
    item: (&'static str, u64),
    /// Whether it is what a head asks of a path that has failed.
    is_probe: bool,
    /// The bio of the submitter, until it is given up.
    host: Option<Box<Bio>>,
    /// The one that travels, unless the disk has it.
    own: Option<Box<Bio>>,
    status: Status,
    fate: Fate,
    place: Place,
    /// When it moves on.
    due: Instant,
}

/// Of each path of a disk since when it is optimized and works.
pub(super) type Board = Rc<RefCell<Vec<Option<Instant>>>>;

/// What a timer is for; above it the number of a command.
const MOVES: u64 = 0;
const GIVES_UP: u64 = 1;
const ANSWERS: u64 = 2;
const RESTARTS: u64 = 3;

/// The device.
pub(super) struct FaultyPath {
    below: [DeviceId; 1],
    limits: Limits,
    habits: PathHabits,
    choices: Choices,
    commands: BTreeMap<u64, Command>,
    sent: u64,
    /// Bios so far of each operation.
    counts: [u64; Op::COUNT],
    /// Commands that were under way when all were given up, times at which that happened, and answers: their numbers in a recording.
    dropped: u64,
    drops: u64,
    told: u64,
    /// Whether nothing goes wrong now.
    calm: bool,
    /// Until when it is down.
    down_until: Instant,
    /// Whether it leads to the disk.
    reaches: bool,
    /// How often the disk has lost its power, as far as the path has noticed, and as it will notice at some time.
    losses: u64,
    restart: Option<(Instant, u64)>,
    /// When the last command of each way arrives.
    last: [Instant; 2],
    asked: Vec<(DeviceId, u64)>,
    /// Answers on their way.
    answers: Vec<(Instant, DeviceId, u64)>,
    /// What it is to the disk.
    state: AnaState,
    /// Whether an operator has taken it out.
    is_offline: bool,
    /// Since when it is none of the head's.
    removed_at: Option<Instant>,
    /// When it failed, if nothing has shown since that it works.
    failed_at: Option<Instant>,
    /// Since when it does not reach the disk.
    out_since: Option<Instant>,
    /// Its number, and what all paths of the disk know of each other.
    number: usize,
    board: Board,
    /// Bios that it gave up or refused.
    pub faults: u64,
    pub complaint: Option<(Instant, String)>,
}

impl FaultyPath {
    /// The next path of those on `board`, which is in this state.
    pub fn new(
        (below, limits): (DeviceId, &Limits),
        habits: PathHabits,
        (state, board): (AnaState, &Board),
        choices: Choices,
    ) -> Self {
        let number = board.borrow().len();
        board.borrow_mut().push((state == AnaState::Optimized).then_some(Instant::ZERO));
        Self {
            below: [below],
            state,
            is_offline: false,
            removed_at: None,
            number,
            board: board.clone(),
            limits: limits.clone(),
            habits,
            choices,
            commands: BTreeMap::new(),
            sent: 0,
            counts: [0; Op::COUNT],
            dropped: 0,
            drops: 0,
            told: 0,
            calm: true,
            down_until: Instant::ZERO,
            reaches: true,
            losses: 0,
            restart: None,
            last: [Instant::ZERO; 2],
            asked: Vec::new(),
            answers: Vec::new(),
            failed_at: None,
            out_since: None,
            faults: 0,
            complaint: None,
        }
    }

    /// From now on nothing goes wrong, or everything can.
    pub fn calm(&mut self, calm: bool, now: Instant) {
        self.calm = calm;
        if calm {
            self.down_until = Instant::ZERO;
            self.stand(AnaState::Optimized, now);
            self.pardon(now);
        }
    }

    /// What it is to the disk.
    pub fn state(&self) -> AnaState {
        self.state
    }

    /// How often the disk has lost its power, as far as is known here.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// The disk loses its power, for this time in all, and is back at `back`: until then the path is down. What is on its way there never
    /// lands, and what comes back may be lost.
    pub fn lose_disk(&mut self, losses: u64, back: Instant, cx: &mut Cx<'_>) {
        let back = self.restart.map_or(back, |(earlier, _)| back.max(earlier));
        self.restart = Some((back, losses));
        cx.wake_at(back, RESTARTS);
        self.choices.begin("outage", losses);
        let is_one = self.choices.chance("gives-up-at-once", 1, 2);
        let notices = is_one.then(|| cx.now() + self.some_of("patience-ns", self.habits.patience));
        for id in self.commands.keys().copied().collect::<Vec<_>>() {
            let answer_is_lost = self.choices.chance("answer-is-lost", 1, 2);
            let at = notices.unwrap_or(cx.now() + self.some_of("patience-ns", self.habits.patience));
            let Some(command) = self.commands.get_mut(&id) else { continue };
            match (command.place, command.host.is_some()) {
                (Place::There, false) => self.forget(id, cx),
                (Place::Below, true) => command.fate = Fate::Unanswered,
                (Place::Back, true) if !answer_is_lost => {}
                (Place::There | Place::Back, true) => {
                    (command.fate, command.place) = (Fate::Lost, Place::Gone);
                    command.own.take().into_iter().for_each(|own| cx.recycle(own));
                    cx.wake_at(at, id << 2 | GIVES_UP);
                }
                _ => {}
            }
        }
        self.answer_if_silent(cx);
    }

    /// The path reaches the disk again, and says what has happened to it.
    fn restarted(&mut self, cx: &mut Cx<'_>) {
        if let Some((_, losses)) = self.restart.take_if(|(back, _)| *back <= cx.now()) {
            self.losses = losses;
            cx.announce_losses(Some(losses));
        }
    }

    /// An operator has put it in again.
    pub fn pardon(&mut self, now: Instant) {
        (self.failed_at, self.is_offline) = (None, false);
        self.post(now);
    }

    /// An operator has taken it out.
    pub fn take_out(&mut self, now: Instant) {
        self.is_offline = true;
        self.post(now);
    }

    /// An operator has removed it, or added it again.
    pub fn remove(&mut self, is_removed: bool, now: Instant) {
        self.removed_at = is_removed.then_some(now);
        self.pardon(now);
    }

    /// From now on it is that to the disk, and leads there or not.
    pub fn stand(&mut self, state: AnaState, now: Instant) {
        self.state = state;
        self.reaches = matches!(state, AnaState::Optimized | AnaState::NonOptimized);
        self.out_since = if self.reaches { None } else { self.out_since.or(Some(now)) };
        self.post(now);
    }

    /// Lets the other paths know whether it is optimized and works.
    fn post(&mut self, now: Instant) {
        let works = self.failed_at.is_none() && !self.is_offline && self.removed_at.is_none();
        let since = &mut self.board.borrow_mut()[self.number];
        *since = if works && self.state == AnaState::Optimized { since.or(Some(now)) } else { None };
    }

    /// Commands that are on their way to the disk.
    pub fn travelling(&self) -> impl Iterator<Item = &Bio> {
        let on_its_way = |command: &&Command| command.place == Place::There && command.fate != Fate::Lost;
        self.commands.values().filter(on_its_way).filter_map(|command| command.own.as_deref())
    }

    fn some_of(&mut self, label: &'static str, longest: Duration) -> Duration {
        Duration(1_000 + self.choices.below(label, longest.0 + 1))
    }

    fn happens(&mut self, label: &'static str, of_1000: u64) -> bool {
        !self.calm && self.choices.chance(label, of_1000, 1000)
    }

    /// When something arrives that leaves now.
    fn arrival(&mut self, way: usize, now: Instant) -> Instant {
        let [fastest, slowest] = self.habits.way;
        let label = ["way-ns", "way-back-ns"][way];
        let at = now + Duration(fastest.0 + self.choices.below(label, slowest.0 - fastest.0 + 1));
        let at = if self.habits.ordered { at.max(self.last[way]) } else { at };
        self.last[way] = at;
        at
    }

    fn choose_fate(&mut self) -> Fate {
        if self.calm {
            return Fate::Arrives;
        }
        let (given_up, may_land) = (self.habits.given_up, self.habits.silence != Silence::AtOnce);
        let among = [Fate::Arrives, Fate::Lost, Fate::Late, Fate::Unanswered];
        let fate = self.choices.decide("fate", (Fate::Arrives, &among), |rng| {
            if !rng.chance(given_up, 1000) {
                return Fate::Arrives;
            }
            match rng.below(3) {
                0 => Fate::Lost,
                1 if may_land => Fate::Late,
                _ => Fate::Unanswered,
            }
        });
        if fate == Fate::Late && !may_land { Fate::Unanswered } else { fate }
    }

    /// Whether it is what a head asks of a path that has failed. What came in the moment of the failure was sent before that was known.
    fn is_probe(&self, bio: &Bio, now: Instant) -> bool {
        let is_one = bio.op == Op::Read && bio.sector == Sector::ZERO && bio.sectors == self.limits.block_sectors();
        is_one && self.failed_at.is_some_and(|failed| failed < now)
    }

    /// Looks at what the head sends.
    fn watch(&mut self, bio: &Bio, now: Instant) {
        let is_before = |at: Option<Instant>| at.is_some_and(|at| at < now);
        let others = || self.board.borrow().iter().any(|since| is_before(*since));
        let wrong = if is_before(self.removed_at) {
            "a path that was removed"
        } else if self.is_probe(bio, now) {
            return;
        } else if is_before(self.failed_at) {
            "a path that has failed"
        } else if is_before(self.out_since) {
            "a path that does not lead to the disk"
        } else if self.state == AnaState::NonOptimized && others() {
            "a path that is not optimized, and another is"
        } else {
            return;
        };
        self.complaint.get_or_insert_with(|| (now, format!("{bio:?} came to {wrong}")));
    }

    /// A probe that fails says nothing of a path that was put in again after it had been sent.
    fn note_failure(&mut self, is_probe: bool, now: Instant) {
        if !is_probe {
            self.failed_at = Some(now);
            self.post(now);
        }
    }

    /// Ends a bio with an error of the path.
    fn fail(&mut self, bio: Box<Bio>, is_probe: bool, cx: &mut Cx<'_>) {
        self.faults += 1;
        self.note_failure(is_probe, cx.now());
        let reason = match self.choices.one("cause", &[Cause::NoAnswer, Cause::Interrupted, Cause::Removed]) {
            Cause::NoAnswer => Reason::NoAnswer(cx.now().since(bio.since)),
            Cause::Interrupted => Reason::Interrupted,
            Cause::Removed => Reason::Removed,
        };
        cx.fail(bio, reason);
    }

    fn moves(&mut self, id: u64, cx: &mut Cx<'_>) {
        let Some(command) = self.commands.get_mut(&id).filter(|command| command.due <= cx.now()) else { return };
        match (command.place, command.own.take()) {
            (Place::There, Some(own)) => {
                command.place = Place::Below;
                cx.submit(self.below[0], own, id);
            }
            (Place::Back, Some(own)) => self.arrived(id, own, cx),
            (_, own) => command.own = own,
        }
    }

    /// An answer is here.
    fn arrived(&mut self, id: u64, mut own: Box<Bio>, cx: &mut Cx<'_>) {
        let Some(Command { host: Some(mut host), status, is_probe, .. }) = self.commands.remove(&id) else {
            return cx.recycle(own);
        };
        answer(&mut host, &mut own, status);
        cx.recycle(own);
        if status.is_path_error() {
            self.note_failure(is_probe, cx.now());
        } else if is_probe {
            self.failed_at = None;
            self.post(cx.now());
        }
        cx.complete(host, status);
    }

    /// Ends a bio, and decides what becomes of its command.
    fn give_up(&mut self, id: u64, cx: &mut Cx<'_>) {
        let at_once = self.habits.silence == Silence::AtOnce;
        let Some(command) = self.commands.get_mut(&id) else { return };
        if at_once && command.place == Place::Below {
            // It is given up when the disk has ended it.
            (command.fate, command.due) = (Fate::Unanswered, cx.now());
            return;
        }
        let Some(host) = command.host.take() else { return };
        self.choices.begin(command.item.0, command.item.1);
        let is_probe = command.is_probe;
        let goes_on = match command.place {
            Place::There => command.fate != Fate::Lost && !at_once,
            Place::Below => true,
            Place::Back | Place::Gone => false,
        };
        if goes_on && command.place == Place::There {
            command.due = cx.now() + Duration(self.choices.below("late-ns", self.habits.late.0 + 1));
            cx.wake_at(command.due, id << 2 | MOVES);
        } else if !goes_on {
            self.forget(id, cx);
        }
        self.fail(host, is_probe, cx);
    }

    fn forget(&mut self, id: u64, cx: &mut Cx<'_>) {
        if let Some(Command { own: Some(own), .. }) = self.commands.remove(&id) {
            cx.recycle(own);
        }
    }

    /// Gives up all that is under way.
    fn drop_all(&mut self, cx: &mut Cx<'_>) {
        let ids: Vec<u64> = self.commands.iter().filter(|(_, c)| c.host.is_some()).map(|(id, _)| *id).collect();
        for id in ids {
            self.dropped += 1;
            self.choices.begin("dropped", self.dropped);
            let is_lost = self.choices.chance("is-lost", 1, 3);
            if let Some(command) = self.commands.get_mut(&id)
                && is_lost
                && command.place == Place::There
            {
                command.fate = Fate::Lost;
            }
            self.give_up(id, cx);
        }
        self.drops += 1;
        self.choices.begin("drop", self.drops);
        self.down_until = cx.now() + self.some_of("down-ns", self.habits.down);
    }

    /// Sends answers on their way if nothing can land any more.
    fn answer_if_silent(&mut self, cx: &mut Cx<'_>) {
        let (Some(longest), true) = (self.habits.answer, self.commands.values().all(|c| c.host.is_some())) else {
            return;
        };
        for (by, question) in core::mem::take(&mut self.asked) {
            self.told += 1;
            self.choices.begin("answer", self.told);
            let at = cx.now() + Duration(self.choices.below("after-ns", longest.0 + 1));
            self.answers.push((at, by, question));
            cx.wake_at(at, ANSWERS);
        }
    }

    fn tell(&mut self, cx: &mut Cx<'_>) {
        let (path, now) = (cx.me(), cx.now());
        self.answers.retain(|(at, by, question)| {
            let is_due = *at <= now;
            if is_due {
                cx.tell_path(*by, PathEvent::Silent { path, question: *question });
            }
            !is_due
        });
    }
}

impl BlockDevice for FaultyPath {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn silence(&self) -> Option<Silence> {
        Some(self.habits.silence)
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.watch(&bio, now);
        let is_probe = self.is_probe(&bio, now);
        let count = &mut self.counts[bio.op as usize];
        *count += 1;
        let item = (bio.op.name(), *count);
        self.choices.begin(item.0, item.1);
        let (mut own, mut fate) = (None, self.choose_fate());
        let is_cut_off = now < self.down_until || self.restart.is_some() || !self.reaches;
        let is_down = is_cut_off || self.happens("is-refused", self.habits.refused);
        let drops = self.happens("drops-all", self.habits.dropped);
        let (mut due, mut place) = (now, Place::Gone);
        if is_down {
            fate = Fate::Lost;
        } else {
            own = Some(cx.own_bio(traveller(&bio)));
            (due, place) = (self.arrival(0, now), Place::There);
        }
        let id = self.sent;
        self.sent += 1;
        self.commands
            .insert(id, Command { item, is_probe, host: Some(bio), own, status: Status::Ok, fate, place, due });
        if matches!(fate, Fate::Arrives | Fate::Unanswered) {
            cx.wake_at(due, id << 2 | MOVES);
        } else if let Some(command) = self.commands.get_mut(&id) {
            command.due = Instant(u64::MAX);
        }
        match fate {
            Fate::Arrives => {}
            // Who sends again at once would never get on in time.
            _ if is_down => cx.wake_at(now + Duration(1_000), id << 2 | GIVES_UP),
            _ => {
                let patience = self.some_of("patience-ns", self.habits.patience);
                cx.wake_at(due + patience, id << 2 | GIVES_UP);
            }
        }
        if drops {
            self.drop_all(cx);
        }
    }

    fn end_io(&mut self, own: Box<Bio>, status: Status, id: u64, cx: &mut Cx<'_>) {
        let now = cx.now();
        let (operation, number) = self.commands.get(&id).expect("a command that is below is known").item;
        self.choices.begin(operation, number);
        let due = self.arrival(1, now);
        let command = self.commands.get_mut(&id).expect("a command that is below is known");
        if command.host.is_none() {
            cx.recycle(own);
            self.commands.remove(&id);
            return self.answer_if_silent(cx);
        }
        if command.fate == Fate::Unanswered {
            cx.recycle(own);
            command.place = Place::Gone;
            // It may have had to be given up before.
            cx.wake_at(now + self.habits.way[1], id << 2 | GIVES_UP);
            return;
        }
        (command.own, command.status, command.place, command.due) = (Some(own), status, Place::Back, due);
        cx.wake_at(due, id << 2 | MOVES);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match event {
            Event::Timer(ANSWERS) => self.tell(cx),
            Event::Timer(RESTARTS) => self.restarted(cx),
            Event::Timer(word) if word & 3 == GIVES_UP => self.give_up(word >> 2, cx),
            Event::Timer(word) => self.moves(word >> 2, cx),
            Event::Path(PathEvent::AskSilence { by, question }) => {
                self.asked.push((by, question));
                self.answer_if_silent(cx);
            }
            Event::Path(PathEvent::GiveUp) => self.drop_all(cx),
            _ => {}
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.commands.values().filter_map(|command| command.host.as_deref()).for_each(visit);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("simulated path that gives up")
    }
}

/// The bio that travels for the one of the host.
fn traveller(of: &Bio) -> Bio {
    let payload = match &of.payload {
        Payload::Zones(zones) => Payload::Zones(Vec::with_capacity(zones.capacity() - zones.len())),
        payload if of.op.has_data() => {
            let data = Data::zeroed(payload.bytes());
            if of.op.is_write() {
                payload.copy_to(&data);
            }
            Payload::Data(data)
        }
        payload => payload.slice(0, of.sectors),
    };
    Bio::new(of.op, of.sector, of.sectors, payload).with_flags(of.flags)
}

/// What the disk said, for the host.
fn answer(host: &mut Bio, own: &mut Bio, status: Status) {
    if !status.is_ok() {
        return host.inherit(own);
    }
    host.sector = own.sector;
    match (&mut host.payload, &own.payload) {
        // Another part of the same table may have reported before.
        (Payload::Zones(zones), Payload::Zones(more)) => zones.extend_from_slice(more),
        (_, Payload::Data(data)) if host.op == Op::Read => {
            host.payload.copy_from(data);
        }
        _ => {}
    }
}
