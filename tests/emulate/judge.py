"""judge: runs each patched call site before and after, from random states, and compares.

usage: judge [-n RUNS] [-s SEED] [-j JOBS] BEFORE AFTER

BEFORE and AFTER are two files or two directories with the same files. Nothing that vfix says is
used: a call site is where the executable bytes differ. Each is run from every way into its
function that the file names (symbols, FDEs, direct jumps and calls from elsewhere) and from itself, over random registers, flags, red zone and stack, with
branches as they come and with branches forced. Before, the page is a model. After, the injected
code runs: with the system call, and with a modelled vDSO that changes all that C code may. Compared
is everything behind each call and at the end: registers but rax, rax where a function returns it,
flags, vector registers, red zone, stack, and what was written and called.

Only a function that other objects can name may change what the C convention lets it, where
its first instruction is patched.

Prints a line for each file in which something differs; exit status 1 if one does.
"""
import argparse
import concurrent.futures
import os
import re
import struct
import sys

import machine
from elf import Elf
from machine import CLOBBERED, NAMES, PAGE, Machine

# Instructions that load an address of the page into a register or push it, and direct calls.
LOAD = re.compile(rb'[\x48\x49]\xc7[\xc0-\xc7](?=[\0][\0\x04\x08]\x60\xff).{4}|[\x48\x49][\xb8-\xbf][\0][\0\x04\x08]\x60\xff{5}|'
                  rb'\x68[\0][\0\x04\x08]\x60\xff|\x41?[\xb8-\xbf][\0][\0\x04\x08]\x60\xff(?!\xff\xff)', re.S)
PAGE_LOW = {at & 0xffffffff: at for at in PAGE}


class Pair:
    """one file before and after"""

    def __init__(self, before, after):
        self.before, self.after = Elf(before), Elf(after)
        old = {(v, m) for _, _, v, _, m in self.before.loads}
        self.injected = [(v, v + m) for _, _, v, _, m in self.after.loads if (v, m) not in old]
        self.sites = self._sites()
        self.problems = []
        self.runs = 0
        self.known = {}  # an address in injected code: the page's that it stands for

    def _sites(self):
        """where executable bytes differ: merged to the span of a call site"""
        found = []
        for flags, off, vaddr, filesz, _ in self.before.loads:
            if not flags & 1:
                continue
            a, b = self.before.data[off:off + filesz], self.after.read(vaddr, filesz)
            if len(b) != len(a):
                raise ValueError('segment at %#x: %d of %d bytes after' % (vaddr, len(b), len(a)))
            for at in differing(a, b):
                at += vaddr
                if self._header(at):
                    continue
                if found and at - found[-1][1] < 6 and self.before.function(at) == self.before.function(found[-1][0]):
                    found[-1][1] = at + 1
                else:
                    found.append([at, at + 1])
        return [(a, b) for a, b in found]

    def _header(self, at):
        """headers, notes and tables that share an executable segment with code"""
        if at - min(v for _, o, v, _, _ in self.before.loads) < 64 + 56 * len(self.before.phdrs):
            return True
        for t, _, off, vaddr, _, filesz, _, _ in self.before.phdrs:
            if t in (2, 4, 7, 0x6474e550) and vaddr <= at < vaddr + filesz:
                return True
        for name, s in self.before.sections:
            if s[2] & 2 and s[3] <= at < s[3] + s[5]:
                return not s[2] & 4
        return False

    def entries(self, site):
        """every way into the function around the site"""
        e, (low, _) = self.before, site
        found = set()
        span = e.function(low)
        if span:
            found.add(span[0])
            found |= {s for s in set(e.functions) | e.labels if span[0] <= s < span[1]}
        else:
            start = max([t for t in self.calls if t <= low and low - t < 4096], default=self.begin(site))
            found.add(start)
            span = start or low, low + 64
        for source, target in self.jumps:
            if span[0] <= target < span[1] and not span[0] <= source < span[1]:
                found.add(target)
                other = e.function(source)
                if other and source not in self.calls_at:
                    found.add(other[0])
        found.add(self.begin(site))
        return sorted(found - {None})

    def begin(self, site):
        """where the load of the site begins, if the bytes before show one"""
        low, high = site
        first = next(a for a in range(low - 10, low + 1) if self.before.executable(a))
        before = self.before.read(first, high - first + 20)
        for m in LOAD.finditer(before):
            start, end = first + m.start(), first + m.end()
            if start <= low < end:
                return start
        for start in range(max(first, low - 4), low + 1):
            b = self.before.read(start, 5)
            c = self.before.read(start - 2, 7)
            if c[:1] in (b'\x48', b'\x4c') and c[1] == 0x8d and c[2] & 0xc7 == 5 and start + 5 + struct.unpack('<i', c[3:])[0] & (1 << 64) - 1 in PAGE:
                return start - 2
            if b[:1] in (b'\xe8', b'\xe9') and start + 5 + struct.unpack('<i', b[1:])[0] & (1 << 64) - 1 in PAGE:
                return start
        return None

    def is_time(self, at):
        """whether code at at asks for the time"""
        m = Machine(self.after, 'syscall', self.injected)
        return [t[1] for t in m.run(at, 1)[0] if t[0] == 'page'] == ['time']

    def references(self):
        """direct jumps and calls between functions, by their bytes"""
        e = self.before
        self.jumps, self.calls, self.calls_at = [], set(), set()
        spans = [e.function(a) or (a - 64, a + 64) for a, _ in self.sites]
        low, high = min(s[0] for s in spans), max(s[1] for s in spans)
        for flags, off, vaddr, filesz, _ in e.loads:
            if not flags & 1:
                continue
            code = e.data[off:off + filesz]
            for m in re.finditer(rb'[\xe8\xe9]|\x0f[\x80-\x8f]', code):
                at = m.end()
                if at + 4 > len(code):
                    continue
                target = vaddr + at + 4 + struct.unpack_from('<i', code, at)[0]
                source = vaddr + m.start()
                if m[0] == b'\xe8' and (target & 15 == 0 or e.read(target - 1, 1) in (b'\xc3', b'\x90', b'\xcc', b'\0')):
                    self.calls.add(target)
                if low <= target < high and any(a <= target < b for a, b in spans):
                    # a chance match leads to the middle of an instruction: only what a table names counts as a second entry
                    if m[0] == b'\xe8' or e.function(source):
                        self.jumps.append((source, target))
                        if m[0] == b'\xe8':
                            self.calls_at.add(source)
        starts = set(e.functions) | e.labels | set(e.starts)
        self.jumps = [(s, t) for s, t in self.jumps if t in starts or s not in self.calls_at and e.function(s)]

    def equal(self, b, a):
        if b == a:
            return True
        page = b if b in PAGE else PAGE_LOW.get(b)
        if page is None:
            b, a = demangled(b), demangled(a)
            if b not in PAGE:
                return False
            page = b
        full = a if b in PAGE else next((x for x in self.known if x & 0xffffffff == a), a)
        if not any(x <= full < y for x, y in self.injected):
            return False
        return self.known.setdefault(full, page) == page

    def bytes_equal(self, b, a):
        if b == a:
            return True
        if len(a) != len(b):
            return False
        for i in range(0, len(a), 8):
            if a[i:i + 8] != b[i:i + 8]:
                x, y = (int.from_bytes(s[i:i + 8], 'little') for s in (b, a))
                if not self.equal(x, y) and not all(self.equal(x >> n & 0xffffffff, y >> n & 0xffffffff) for n in (0, 32)):
                    return False
        return True

    def allowances(self, site):
        """what a call site may change beside rax: a system call in its place changes rcx and r11; glibc's
        PTR_MANGLE of an address that is another one sets other flags"""
        low, high = site
        self.free = ('rcx', 'r11') if b'\x0f\x05' in self.after.read(low - 1, high - low + 2) else ()
        span = self.before.function(low) or (low, low + 64)
        self.flags = machine.FLAGS & (0x400 if b'\x64\x48\x33\x04\x25\x30\0\0\0' in self.before.read(*(span[0], span[1] - span[0])) else -1)

    def state(self, b, a, free=(), stub=False):
        """how two states differ, in words; None if not"""
        if len(b) > 4 and not self.equal(b[4], a[4]):
            return 'rax: %#x before, %#x after' % (b[4], a[4])
        for name, x, y in zip(NAMES[1:], b[0], a[0]):
            if name not in free and name not in self.free and not self.equal(x, y):
                return '%s: %#x before, %#x after' % (name, x, y)
        mask = 0x400 if free or stub else self.flags
        if b[1] & mask != a[1] & mask:
            return 'flags: %#x before, %#x after' % (b[1] & mask, a[1] & mask)
        if not free:
            for i, (x, y) in enumerate(zip(b[2], a[2])):
                if x != y:
                    return 'xmm%d: %#x before, %#x after' % (i // 2, x, y)
            if not self.bytes_equal(b[3][:128], a[3][:128]):
                return 'red zone: %s' % self.first(b[3], a[3], -128)
        if not self.bytes_equal(b[3][128:], a[3][128:]):
            return 'stack: %s' % self.first(b[3][128:], a[3][128:], 0)
        return None

    def first(self, b, a, base):
        for i in range(0, len(b), 8):
            if not self.bytes_equal(b[i:i + 8], a[i:i + 8]):
                return 'at %d: %s before, %s after' % (base + i, b[i:i + 8].hex(), a[i:i + 8].hex())
        return 'nothing'

    def compare(self, one, two, before, after, free):
        """how two runs differ, in words; None if not"""
        (tb, sb, eb), (ta, sa, ea) = one, two
        unended = 'steps', 'decisions', 'too long'
        short = eb in unended or ea in unended
        # Injected code makes a run longer, but not by so much.
        if ea in unended and eb not in unended and before.steps < machine.MAX_STEPS // 40:
            return 'ends before (%s), after it does not (%s)' % (eb, ea)
        for x, y in zip(tb, ta):
            if x[0] != y[0]:
                return 'before: %s, after: %s' % (words(x), words(y))
            if x[0] == 'page':
                if x[1] != y[1]:
                    return 'calls %s before, %s after' % (x[1], y[1])
                for i, (p, q) in enumerate(zip(x[2], y[2])):
                    if p != q:
                        return 'argument %d of %s: %#x before, %#x after' % (i + 1, x[1], p, q)
                continue
            # A system call in place of a call may end before it, with instructions that do nothing behind it.
            if not self.equal(x[1], y[1]) and not (self.free and y[1] <= x[1] <= y[1] + 8):
                return '%s before, %s after' % (words(x), words(y))
            bad = self.state(x[2], y[2], free, len(x) > 3 and x[3])
            if bad:
                return 'at %s: %s' % (words(x), bad)
        if short:
            return None
        if len(tb) != len(ta):
            more = (tb + ta)[min(len(tb), len(ta))] if len(tb) != len(ta) else None
            longer = tb if len(tb) > len(ta) else ta
            return '%s %s alone' % (words(longer[min(len(tb), len(ta))]), 'before' if longer is tb else 'after')
        if eb != ea:
            return 'ends: %s before, %s after' % (eb, ea)
        if eb == 'events':
            return None
        bad = self.state(sb, sa, free, before.stub)
        if bad:
            return 'at the end (%s): %s' % (eb, bad)
        rsp = sb[0][3]
        for n in sorted(before.dirty | after.dirty):
            p = n << 12
            if p not in before.mapped or p not in after.mapped:
                if p not in before.mapped and not after.is_injected(p):
                    return 'page %#x written after alone' % p
                continue
            b, a = before.read(p, 4096), after.read(p, 4096)
            if before.pristine.get(p) != after.pristine.get(p):  # headers, which differ: what was written alone
                b, a = (written(f.pristine[p], x) for f, x in ((before, b), (after, a)))
            if p <= rsp < p + 4096 or machine.STACK <= p < rsp:
                cut = max(0, min(4096, (rsp if free else rsp - 128) - p))
                b, a = b[cut:], a[cut:]
            if not self.bytes_equal(b, a):
                return 'memory at %#x: %s' % (p + 4096 - len(b), self.first(b, a, 0))
        return None

    def judge(self, runs, seed, enough):
        if not self.sites:
            return
        self.references()
        e = self.before
        stubs = {}  # the start of a function whose first instruction is patched: may it clobber?
        for a, b in self.sites:
            span = e.function(a) or (self.begin((a, b)) or a, a + 32)
            for s in {span[0], self.begin((a, b)), a} - {None}:
                if self.after.read(s, 1) in (b'\xe9', b'\xeb') and e.read(s, 5) != self.after.read(s, 5):
                    stubs[s] = (s, max(span[1], s + 5)), s in e.exported
            if a == span[0] and b'\x0f\x05' in self.after.read(a, b - a):  # a whole function that became a system call
                stubs[a] = span, a in e.exported
        models = [s for s, (_, exported) in stubs.items() if exported]
        before = Machine(e, 'before', sites=self.sites, models=models)
        afters = [Machine(self.after, mode, self.injected, self.sites, models) for mode in ('syscall', 'vdso')]
        self.hooks(afters[1])
        skip = [span for span, _ in stubs.values()]
        for site in self.sites:
            self.allowances(site)
            for entry in self.entries(site):
                free = CLOBBERED if entry in models else ()
                for k in range(runs):
                    forced = k % 2 == 1
                    number = (seed * 1000003 + entry * 31 + k) & 0xffffffff
                    explore(before)
                    inside = entry == self.begin(site)
                    first = before.run(entry, number, forced, skip=skip, inside=inside)
                    if first[2] == 'illegal' or not machine.STACK < first[1][0][3] < machine.STACK + machine.STACK_SIZE:
                        continue
                    self.runs += 1
                    for m in afters:
                        m.choose = before.choose
                        bad = self.compare(first, m.run(entry, number, forced, skip=skip, inside=inside), before, m, free)
                        if bad:
                            self.problems.append('site %#x from %#x%s, %s, seed %d%s: %s' % (
                                site[0], entry, ' (%s)' % e.names[entry] if entry in e.names else '', m.mode, number, ' forced' if forced else '', bad))
                            break
                    if len(self.problems) >= enough:
                        return
        self.alone(afters, seed)

    def alone(self, afters, seed):
        """each address that a register held in place of the page's is called as itself, from random states"""
        for at, page in sorted(self.known.items()):
            for m in afters:
                for k in range(8):
                    trace, end, how = m.run(at, seed + k)
                    if how != 'returned' or [t[:2] for t in trace] != [('page', PAGE[page])]:
                        self.problems.append('%#x stands for %s, %s: %s, %s' % (at, PAGE[page], m.mode, how, [words(t) for t in trace]))
                        break

    def hooks(self, m):
        """runs what vfix put before the file's own first instruction, against the vDSO's image"""
        b, a = self.before, self.after
        todo = []
        if a.entry != b.entry:
            todo.append(('entry', a.entry, b.entry))
        if a.dynamic.get(12) != b.dynamic.get(12):
            todo.append(('DT_INIT', a.dynamic.get(12), b.dynamic.get(12)))
        for where, value in a.words.items():
            if any(x <= value < y for x, y in self.injected):
                todo.append(('word at %#x' % where, value, b.words.get(where)))
        if not todo:  # an array with RELR, whose words are in place
            at, n = a.dynamic.get(25), a.dynamic.get(27, 0)
            for i in range(at or 0, (at or 0) + n, 8):
                x, y = (int.from_bytes(f.read(i, 8), 'little') + f.bias for f in (a, b))
                if x != y:
                    todo.append(('word at %#x' % i, x, y))
        state = None
        for what, start, want in todo:
            bad = self.hook(m, what, start, want)
            if bad:
                self.problems.append('hook of %s: %s' % (what, bad))
            written = [n << 12 for n in m.dirty if m.is_injected(n << 12)]
            if written:
                state = [(p, m.read(p, 4096)) for p in written]
        for p, content in state or ():
            m.pristine[p] = content
        if todo and state is None:
            self.problems.append('the hook finds no vDSO')

    def hook(self, m, what, start, want):
        m.reset()
        for p in [p for p in m.mapped if m.is_injected(p)]:
            m.uc.mem_write(p, m.pristine[p])
        m.seed, m.forced, m.start, m.skip = 1, False, start, ()
        m.trace, m.visits = [], {}
        m.steps = m.decisions = m.pages = 0
        m.snap, m.stub, m.over, m.bottom = False, False, None, machine.RSP
        auxv = struct.pack('<8Q', 6, 4096, 33, machine.VDSO, 25, machine.SCRATCH, 0, 0)
        strings = machine.RSP + 0x400
        block = struct.pack('<5Q', 1, strings, 0, strings + 16, 0) + auxv
        rsp = machine.RSP
        m.write(rsp, block)
        m.write(strings, b'program\0' + bytes(8) + b'A=B\0')
        for i, name in enumerate(NAMES):
            m.set(name, 0x1000 + i)
        if what != 'entry':
            m.set('rdi', 1)
            m.set('rsi', rsp + 8)
            m.set('rdx', rsp + 24)
            rsp = machine.RSP - 0x200
            m.write(rsp, struct.pack('<Q', machine.SENTINEL))
        m.set('rsp', rsp)
        m.setreg(machine.EFLAGS, 2)
        was = [m.get(n) for n in NAMES], m.read(rsp, 512)

        def answer(number, m):
            if number == 10:
                return 0
            return (1 << 64) - 2 if number in (2, 257) else (1 << 64) - 22
        m.hooking = answer
        reached = []

        def arrive(uc, at, size, _):
            reached.append(at)
            uc.emu_stop()
        from unicorn import UC_HOOK_CODE
        handle = m.uc.hook_add(UC_HOOK_CODE, arrive, None, want, want) if want else None
        try:
            ended = m._go(start)
        finally:
            if handle:
                m.uc.hook_del(handle)
            m.hooking = None
        if want and not reached:
            return 'does not reach what was there before (%s, at %#x)' % (ended, m.reg(machine.RIP))
        if not want and ended != 'returned':
            return ended
        if want:
            now = [m.get(n) for n in NAMES], m.read(rsp, 512)
            keep = NAMES if what == 'entry' else machine.KEPT + ('rsp', 'rdi', 'rsi', 'rdx')
            for n, x, y in zip(NAMES, was[0], now[0]):
                if x != y and n in keep:
                    return '%s: %#x before, %#x after' % (n, x, y)
            if was[1] != now[1]:
                return 'it changes the stack'
        return None


def explore(m):
    """forced branches go where fewer runs have been"""
    counts = m.choices
    memo = {}

    def choose(at, n):
        if (at, n) not in memo:
            c = counts.setdefault(at, [0, 0])
            taken = int(c[1] < c[0] or c[1] == c[0] and hash((m.seed, at, n)) & 1)
            if hash((m.seed, at, n, 7)) % 5 == 0:
                taken ^= 1
            c[taken] += 1
            memo[at, n] = taken
        return memo[at, n]
    m.choose = choose


def demangled(value):
    """what glibc's PTR_MANGLE made the value of"""
    return ((value >> 17 | value << 47) & (1 << 64) - 1) ^ machine.GUARD


def written(old, new):
    return bytes(0 if x == y else y for x, y in zip(old, new))


def words(event):
    if event[0] == 'page':
        return event[1]
    return '%s %#x' % (event[0], event[1])


def differing(a, b):
    """the offsets at which two equally long strings differ"""
    if a == b:
        return
    step = 4096
    for i in range(0, len(a), step):
        if a[i:i + step] != b[i:i + step]:
            for j in range(i, min(i + step, len(a))):
                if a[j] != b[j]:
                    yield j


def look(job):
    before, after, a = job
    try:
        pair = Pair(before, after)
        pair.judge(a.n, a.s, a.first)
    except Exception as e:  # a file that this program cannot judge is a failure, with its name
        return before, ['%s: %s' % (type(e).__name__, e)], 0, 0
    return before, pair.problems, len(pair.sites), pair.runs


def files(before, after):
    if os.path.isfile(before):
        yield before, after
        return
    for directory, _, names in os.walk(before):
        for name in sorted(names):
            one = os.path.join(directory, name)
            two = os.path.join(after, os.path.relpath(one, before))
            if os.path.islink(one) or not os.path.isfile(one) or not os.path.isfile(two):
                continue
            with open(one, 'rb') as f, open(two, 'rb') as g:
                if f.read(20)[:5] == b'\x7fELF\2' and (os.path.getsize(one) != os.path.getsize(two) or open(one, 'rb').read() != open(two, 'rb').read()):
                    yield one, two


def main():
    p = argparse.ArgumentParser()
    p.add_argument('-n', type=int, default=6, help='runs from each way into a function')
    p.add_argument('-s', type=int, default=1, help='where the random numbers start')
    p.add_argument('-j', type=int, default=2, help='processes')
    p.add_argument('-m', type=int, default=3, help='lines for a file')
    p.add_argument('--first', type=int, default=40, help='give up a file after so many differences')
    p.add_argument('before')
    p.add_argument('after')
    a = p.parse_args()
    jobs = [(x, y, a) for x, y in files(a.before, a.after)]
    total, wrong = [0, 0], 0
    with concurrent.futures.ProcessPoolExecutor(a.j) as pool:
        for name, problems, *counts in pool.map(look, jobs):
            total = [x + y for x, y in zip(total, counts)]
            for problem in problems[:a.m]:
                print('%s: %s' % (name, problem))
            if len(problems) > a.m:
                print('%s: and %d more' % (name, len(problems) - a.m))
            wrong += bool(problems)
    sys.stdout.flush() # a reader of both streams gets the problems before the summary
    print('judge: %d files, %d call sites, %d runs, %d files differ' % (len(jobs), *total, wrong), file=sys.stderr)
    return 1 if wrong or not jobs else 0


if __name__ == '__main__':
    sys.exit(main())
