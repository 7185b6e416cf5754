#!/usr/bin/env python3
"""Does the same random zone operations to two zoned block devices and ends with 1 at the first that they answer differently.

zone-differ.py THEIRS OURS SEED OPERATIONS [DIFFERENCE]...

After each operation the errno and a report of all zones are compared, and for reads the data. The report comes whether or not
something failed: after a failed write Linux takes no more writes in the zone before one. A DIFFERENCE is the name of one that
is known (see KNOWN); what it concerns is put right on both, and the rest goes on.
"""
import errno
import fcntl
import mmap
import os
import random
import struct
import sys

# <linux/blkzoned.h>
REPORT, RESET, OPEN, CLOSE, FINISH = 0xC0101282, 0x40101283, 0x40101286, 0x40101287, 0x40101288
MANAGE = {'reset': RESET, 'open': OPEN, 'close': CLOSE, 'finish': FINISH}
CONVENTIONAL, EMPTY, IMPLICIT, EXPLICIT, CLOSED, READ_ONLY, FULL, OFFLINE = 0, 1, 2, 3, 4, 13, 14, 15
NAMES = {0: 'conventional', 1: 'empty', 2: 'implicitly open', 3: 'explicitly open', 4: 'closed', 13: 'read-only', 14: 'full', 15: 'offline'}
# A target's own refusal of a command that it does not like is an error of the disk for whoever has asked.
SAME_ERRNO = {errno.EREMOTEIO: errno.EIO}
MOST = 4 << 20  # bytes of a read or a write
ONE = 64 << 10  # of those that no driver cuts


class Device:
    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR | os.O_DIRECT)
        name = os.path.basename(path)
        queue = '/sys/block/%s/queue/' % name
        self.unit = int(open(queue + 'logical_block_size').read())
        self.bytes = 512 * int(open('/sys/block/%s/size' % name).read())
        self.zones = int(open(queue + 'nr_zones').read())
        self.memory = mmap.mmap(-1, MOST)

    def do(self, kind, at, length, data=None):
        """Bytes at `at`; the errno as a number, and what was read."""
        try:
            if kind == 'write':
                self.memory[:length] = data
                return 0, os.pwritev(self.file, [memoryview(self.memory)[:length]], at)
            if kind == 'read':
                count = os.preadv(self.file, [memoryview(self.memory)[:length]], at)
                return 0, self.memory[:count]
            fcntl.ioctl(self.file, MANAGE[kind], struct.pack('=QQ', at // 512, length // 512))
            return 0, None
        except OSError as error:
            return SAME_ERRNO.get(error.errno, error.errno), None

    def report(self):
        """Start, length, capacity, type, condition and pointer of each zone. Without a meaning the pointer is 0."""
        buffer = bytearray(16 + 64 * self.zones)
        struct.pack_into('=QI', buffer, 0, 0, self.zones)
        fcntl.ioctl(self.file, REPORT, buffer)
        found = []
        for n in range(struct.unpack_from('=I', buffer, 8)[0]):
            start, size, pointer, kind, condition = struct.unpack_from('=QQQBB', buffer, 16 + 64 * n)
            capacity = struct.unpack_from('=Q', buffer, 16 + 64 * n + 32)[0]
            pointer = pointer if condition in (EMPTY, IMPLICIT, EXPLICIT, CLOSED) else 0
            found.append(tuple(512 * value for value in (start, size, capacity)) + (kind, condition, 512 * pointer))
        return found


def choose(rnd, device, zones, last):
    """A random operation: its kind, where and how long, and the data of a write. Every other one is for the zone of the one before."""
    zone = next((zone for zone in zones if zone[0] <= last < zone[0] + zone[1] and rnd.random() < 0.5), None) or rnd.choice(zones)
    unit, (start, size, capacity, _, condition, pointer) = device.unit, zone
    full, written = condition == FULL, max(pointer - start, 0)
    some = unit * rnd.randint(1, ONE // unit)
    what = rnd.choices(
        ['on', 'fill', 'nearly', 'behind', 'ahead', 'past capacity', 'across', 'anywhere', 'read', 'read written', 'read past end', 'odd write', 'odd read',
         'past end', 'one', 'many', 'all', 'odd zone'], [30, 3, 6, 3, 3, 5, 5, 2, 6, 6, 1, 2, 1, 1, 40, 4, 1, 2])[0]
    if what in ('one', 'many', 'all', 'odd zone'):
        kind = rnd.choice(['open', 'open', 'close', 'close', 'finish', 'reset', 'reset']) if what != 'all' else 'reset'
        length = {'one': size, 'many': size * rnd.randint(2, 3), 'all': device.bytes, 'odd zone': size // 2}[what]
        return kind, 0 if what == 'all' else start, length, None
    if what.endswith('read') or what.startswith('read'):
        at = start + {'read written': 0, 'read past end': device.bytes - start - unit, 'odd read': 256}.get(what, unit * rnd.randrange(size // unit))
        return 'read', at, min(some, max(written, unit)) if what == 'read written' else some, None
    # One command each where it may fail: how a long write is cut is the kernel's affair.
    at = start + {
        'on': written, 'fill': written, 'nearly': written, 'behind': written - some, 'ahead': written + some, 'past capacity': written,
        'across': written, 'anywhere': unit * rnd.randrange(size // unit), 'odd write': written + 256,
        'past end': device.bytes - start}[what]
    left = capacity - written
    length = {'fill': left, 'nearly': left - unit * rnd.randint(1, 8), 'on': min(some, left), 'past capacity': left + unit, 'across': size - written + unit}.get(what, some)
    if full or length <= 0 or at < 0 or (what in ('past capacity', 'across') and length > ONE):
        length, at = some, max(at, 0)
    return 'write', at, length, rnd.randbytes(length)


# Known differences: whether it is this one. Each is given the operation, the conditions of its zones before, the errno of both, and
# whether it is one command: of several any may be the one whose errno is told, and one may succeed.
LIMITS = (errno.ETOOMANYREFS, errno.EOVERFLOW)
KNOWN = {
    # ZBC lets both pass without effect, ZNS calls them Invalid Zone State Transition.
    'zbc-open-full': lambda kind, zones, theirs, ours, one: (kind, theirs, ours) == ('open', 0, errno.EIO) and FULL in zones,
    'zbc-close-empty': lambda kind, zones, theirs, ours, one: (kind, theirs, ours) == ('close', 0, errno.EIO) and {EMPTY, FULL} & set(zones),
    # A zone that is finished holds nothing afterwards; some ask for what an open zone holds all the same.
    'finish-needs-resources': lambda kind, zones, theirs, ours, one: kind == 'finish' and (theirs in LIMITS or theirs and not one),
    # And close another for it.
    'finish-closes': lambda kind, zones, theirs, ours, one: kind == 'finish',
    # A closed zone is active already: to open it takes another's place among the open ones and no more.
    'evict-needs-active': lambda kind, zones, theirs, ours, one: CLOSED in zones and (theirs in LIMITS or theirs and not one),
    # ZBC has a zone in which nothing was written empty when it is closed, ZNS closed.
    'zns-closed-without-data': lambda kind, zones, theirs, ours, one: kind == 'close' and theirs == ours and EXPLICIT in zones,
    # To close one zone for another and to refuse that nevertheless is allowed: devices may close what is implicitly open at any time.
    'closes-and-refuses': lambda kind, zones, theirs, ours, one: theirs and ours and kind in ('open', 'write'),
}
# Those that close zones which ours leaves open, and do nothing else.
CLOSING = {'finish-closes', 'closes-and-refuses'}


def unlike(kind, at, data, other, zones):
    """What was read differently, if anything was; where nothing was written since the last reset, or behind the capacity it may be anything."""
    if data == other:
        return None
    if kind != 'read' or len(data) != len(other):
        return '%s, %s' % (data, other)
    end = at + len(data)
    for start, _, capacity, _, condition, pointer in zones:
        until = pointer if condition in (EMPTY, IMPLICIT, EXPLICIT, CLOSED) else start + capacity
        first, last = max(at, start), min(end, until)
        where = next((n for n in range(first, last) if data[n - at] != other[n - at]), None)
        if where is not None:
            return 'byte %d of the zone at %d KiB, which is %s, is %d and %d' % (where - start, start >> 10, NAMES[condition], data[where - at], other[where - at])
    return None


def main():
    theirs, ours = Device(sys.argv[1]), Device(sys.argv[2])
    seed, operations, known = int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]
    rnd, history, counts, at = random.Random(seed), [], {}, 0
    both = (theirs, ours)

    def differ(what, *found):
        print('\n'.join(history[-12:]))
        sys.exit('seed %d: of theirs and ours %s differs: %s' % (seed, what, '; '.join(map(str, found))))

    for device in both:
        device.do('reset', 0, device.bytes)
    before = theirs.report()
    if [zone[:4] for zone in before] != [zone[:4] for zone in ours.report()]:
        differ('the shape', before, ours.report())
    for n in range(operations):
        kind, at, length, data = choose(rnd, theirs, before, at)
        (left, left_found), (right, right_found) = (device.do(kind, at, length, data) for device in both)
        history.append('%d: %s at %d KiB + %d, length %d: %s, %s' % (n, kind, at >> 10, at & 1023, length, errno.errorcode.get(left, 'ok'), errno.errorcode.get(right, 'ok')))
        touched = [zone[4] for zone in before if zone[0] < at + length and at < zone[0] + zone[1]]
        one = length <= (ONE if kind in ('read', 'write') else before[0][1])
        explained = {name for name in known if KNOWN[name](kind, touched, left, right, one)}
        if left != right and not explained - CLOSING and (one or not left or not right):
            differ('the errno', errno.errorcode.get(left, 'ok'), errno.errorcode.get(right, 'ok'))
        if left == right and unlike(kind, at, left_found, right_found, before):
            differ('what was read or written', unlike(kind, at, left_found, right_found, before))
        reports = [device.report() for device in both]
        other = [n for n, pair in enumerate(zip(*reports)) if pair[0] != pair[1]]
        opened = [sum(zone[4] in (IMPLICIT, EXPLICIT) for zone in report) for report in reports]
        # Which of its implicitly open zones a device closes to open another is its own choice.
        pairs = [(reports[0][n], reports[1][n]) for n in other]
        chosen = all({left[4], right[4]} == {IMPLICIT, CLOSED} and left[5] == right[5] for left, right in pairs) and (
            opened[0] == opened[1] or (CLOSING & explained and all(left[4] == CLOSED for left, _ in pairs)))
        if other and not chosen and not explained - CLOSING:
            n = other[0]
            differ('zone %d' % n, *('%s, pointer at byte %d' % (NAMES[report[n][4]], report[n][5]) for report in reports))
        for name in explained - CLOSING if left != right else ['chosen'] if chosen and other else []:
            counts[name] = counts.get(name, 0) + 1
        for device in both:
            for n in other:
                device.do('close' if chosen else 'reset', before[n][0], before[n][1])
        before = theirs.report()
        if other and before != ours.report():
            differ('what was put right', before, ours.report())
        result = kind + (' ok' if left == 0 else ' ' + errno.errorcode[left])
        counts[result] = counts.get(result, 0) + 1
    for at in range(0, theirs.bytes, MOST):
        (left, left_found), (right, right_found) = (device.do('read', at, MOST) for device in both)
        if left != right or unlike('read', at, left_found, right_found, before):
            differ('what is there', left, right, unlike('read', at, left_found, right_found, before))
    print('seed %d: %s' % (seed, ', '.join('%s %d' % pair for pair in sorted(counts.items()))))


main()
