"""Commits transactions, takes the power in the middle of things, and looks at what is left, again and again."""

import random
from itertools import count

import apsw
from moments import Broken, CuttingDrive
from nbd_vfs import NbdVfs

from shingle import Disk

CUTS = 5
# At most, between two cuts.
TRANSACTIONS = 20
ROWS = 40
MOMENTS = {"write": 120, "flush": 40}
NAMES = count()


class Database:
    """A database on a drive. Opening it rolls back what was under way when the power went."""

    def __init__(self, make: type[NbdVfs], drive: CuttingDrive, synchronous: str) -> None:
        name = f"nbd-{next(NAMES)}"
        # It has to live as long as the connection.
        self.vfs = make(name, drive)
        self.connection = apsw.Connection("db", vfs=name)
        self.connection.execute("pragma journal_mode = delete").fetchall()
        self.connection.execute(f"pragma synchronous = {synchronous}")

    def create(self) -> None:
        """Makes the tables."""
        self.connection.execute("create table done (number integer primary key)")
        self.connection.execute("create table texts (id integer primary key, text text)")

    def commit(self, number: int) -> None:
        """The transaction with this number."""
        with self.connection:
            self.connection.execute("insert into done values (?)", (number,))
            for each in (number, number + 1000):
                self.connection.execute("insert or replace into texts values (?, ?)", row_of(each))

    def check(self, acknowledged: int) -> int:
        """Looks at everything; returns how many transactions are there."""
        said = self.connection.execute("pragma integrity_check").fetchall()
        if said != [("ok",)]:
            raise Broken(f"integrity_check says {said}")
        ((done,),) = self.connection.execute("select coalesce(max(number), 0) from done").fetchall()
        if done not in (acknowledged, acknowledged + 1):
            raise Broken(f"{acknowledged} transactions were acknowledged, {done} are there")
        assert isinstance(done, int)
        if {row: text for row, text in self.connection.execute("select id, text from texts")} != expected(done):
            raise Broken(f"the rows are not those of transaction {done}")
        return done

    def close(self) -> None:
        """Lets go of it. Without power that fails, as everything does."""
        try:
            self.connection.close(True)
        except apsw.Error:
            pass


def row_of(number: int) -> tuple[int, str]:
    """What a transaction changes: a row, and its text, which is sometimes long."""
    rng = random.Random(number)
    return rng.randrange(ROWS), "x" * rng.choice([10, 500, 5000]) + str(number)


def expected(done: int) -> dict[int, str]:
    """What is there after so many transactions."""
    return dict(row_of(each) for number in range(1, done + 1) for each in (number, number + 1000))


def crash_loop(make: type[NbdVfs], disk: Disk, seed: int, synchronous: str = "extra") -> None:
    """Raises `Broken` if a transaction is lost, or the database is damaged. The same seed does the same."""
    drive, rng = CuttingDrive(disk, MOMENTS), random.Random(seed)
    database = Database(make, drive, synchronous)
    database.create()
    acknowledged = 0
    for cut in range(CUTS):
        drive.choose(rng)
        try:
            for _ in range(TRANSACTIONS):
                database.commit(acknowledged + 1)
                acknowledged += 1
                if drive.is_cut:
                    break
        except apsw.Error as error:
            if not drive.is_cut:
                raise Broken(f"before cut {cut}, with power: {error}") from error
        drive.cut_now()
        database.close()
        disk.power_on()
        try:
            database = Database(make, drive, synchronous)
            acknowledged = database.check(acknowledged)
        except (apsw.Error, Broken) as error:
            raise Broken(f"after cut {cut}, {drive.moment}: {error}") from error
    database.close()
