"""A machine that runs parts of one ELF file from random states, and notes all that they do.

The vsyscall page, the system calls behind it and the vDSO are models that give the same answers,
so that a run before and one after patching can be compared event by event. The code that a run calls in
other files is a model as well: it scrambles what the C convention lets it, and returns.
"""
import ctypes
import functools
import random
import struct

from unicorn import UC_ARCH_X86, UC_HOOK_CODE, UC_HOOK_INSN, UC_HOOK_INTR, UC_HOOK_MEM_READ_UNMAPPED, UC_HOOK_MEM_WRITE, \
    UC_HOOK_MEM_WRITE_UNMAPPED, UC_MODE_64, UC_PROT_READ, UC_PROT_WRITE, Uc, UcError
from unicorn import x86_const as x86
from unicorn.unicorn_py3.unicorn import uclib

from elf import EXTERN

MASK = (1 << 64) - 1
PAGE = {0xffffffffff600000: 'gettimeofday', 0xffffffffff600400: 'time', 0xffffffffff600800: 'getcpu'}
NUMBERS = {96: 'gettimeofday', 201: 'time', 309: 'getcpu'}
FLAGS = 0xcd5  # CF PF AF ZF SF DF OF

STACK, STACK_SIZE, RSP = 0x7ffd00000000, 0x10000, 0x7ffd0000c000
SCRATCH, SCRATCH_SIZE = 0x7d0000000000, 0x8000
TLS = 0x7d1000000000
SENTINEL = 0x7e1000000000
VDSO = 0x7f4000000000
VDSO_CODE = {VDSO + 0x1000 + 0x40 * i: name for i, name in enumerate(('gettimeofday', 'time', 'getcpu', 'clock_gettime'))}

NAMES = ('rax', 'rcx', 'rdx', 'rbx', 'rsp', 'rbp', 'rsi', 'rdi', 'r8', 'r9', 'r10', 'r11', 'r12', 'r13', 'r14', 'r15')
REGS = {n: getattr(x86, 'UC_X86_REG_' + n.upper()) for n in NAMES}
GPRS = [REGS[n] for n in NAMES]
RAX, RSP_, RIP, EFLAGS = REGS['rax'], REGS['rsp'], x86.UC_X86_REG_RIP, x86.UC_X86_REG_EFLAGS
XMM = [x86.UC_X86_REG_XMM0 + i for i in range(16)]
CLOBBERED = ('rcx', 'rdx', 'rsi', 'rdi', 'r8', 'r9', 'r10', 'r11')
KEPT = ('rbx', 'rbp', 'r12', 'r13', 'r14', 'r15')

GUARD = 0x5a3c9e7711bb2d00  # fs:0x30, with which glibc mangles pointers

BELOW = -12  # how far below the stack pointer, in words, pointers may lead
MAX_EVENTS, MAX_DECISIONS, MAX_STEPS = 24, 120, 4000


class Registers:
    """all that is compared, read and written at once: one by one takes most of the time"""

    ids = (ctypes.c_int * 33)(*GPRS, EFLAGS, *XMM)

    def __init__(self, uc):
        self.handle = uc._uch
        self.whole = (ctypes.c_uint64 * (17 + 32))()
        base = ctypes.addressof(self.whole)
        self.pointers = (ctypes.c_void_p * 33)(*[base + 8 * i for i in range(17)], *[base + 136 + 16 * i for i in range(16)])
        self.one = ctypes.c_uint64()
        self.at = ctypes.byref(self.one)

    def read(self):
        uclib.uc_reg_read_batch(self.handle, self.ids, self.pointers, 33)
        return self.whole

    def write(self, values):
        self.whole[:] = values
        uclib.uc_reg_write_batch(self.handle, self.ids, self.pointers, 33)

    def get(self, register):
        uclib.uc_reg_read(self.handle, register, self.at)
        return self.one.value

    def set(self, register, value):
        self.one.value = value & MASK
        uclib.uc_reg_write(self.handle, register, self.at)


@functools.cache
def page_content(p):
    r = random.Random(p)
    words = [r.choice((0, r.randrange(64), SCRATCH + r.randrange(SCRATCH_SIZE) & ~7, r.getrandbits(62))) for _ in range(512)]
    return struct.pack('<512Q', *words)


def page_of(at):
    return at & ~0xfff


class End(Exception):
    """the run is over"""


class Machine:
    """mode is before, syscall or vdso; models are functions that are called and not run."""

    def __init__(self, elf, mode, injected=(), sites=(), models=()):
        self.elf, self.mode, self.injected, self.sites, self.models = elf, mode, injected, sites, set(models)
        self.uc = uc = Uc(UC_ARCH_X86, UC_MODE_64)
        self.registers = Registers(uc)
        self.reg, self.setreg = self.registers.get, self.registers.set
        self.pristine, self.mapped, self.dirty = {}, set(), set()
        for flags, off, vaddr, filesz, memsz in elf.loads:
            self._load(vaddr, elf.data[off:off + filesz], memsz, flags if (vaddr, vaddr + memsz) not in injected else 7)
        for where, value in elf.words.items():
            self._poke(where, struct.pack('<Q', value & MASK))
        for at, size in (STACK, STACK_SIZE), (SCRATCH, SCRATCH_SIZE), (TLS - 0x4000, 0x5000):
            self._lazy(at, size)
        self._poke(TLS, struct.pack('<7Q', TLS, 0, TLS, 0, 0, 0, GUARD))
        uc.mem_map(VDSO, 0x1000, UC_PROT_READ)
        self.vdso_image = vdso_image()
        uc.mem_write(VDSO, self.vdso_image)
        uc.reg_write(x86.UC_X86_REG_FS_BASE, TLS)
        uc.hook_add(UC_HOOK_MEM_WRITE, self._on_write)
        uc.hook_add(UC_HOOK_MEM_READ_UNMAPPED | UC_HOOK_MEM_WRITE_UNMAPPED, self._on_unmapped)
        uc.hook_add(UC_HOOK_INSN, self._on_syscall, None, 1, 0, x86.UC_X86_INS_SYSCALL)
        uc.hook_add(UC_HOOK_INTR, self._on_interrupt)
        for flags, _, vaddr, filesz, _ in elf.loads:
            if flags & 1 and not any(a <= vaddr < b for a, b in injected):
                uc.hook_add(UC_HOOK_CODE, self._on_code, None, vaddr, vaddr + filesz - 1)
        self.kinds = {}
        self.choices = {}

    # Memory

    def _load(self, vaddr, content, memsz, flags):
        # The rest comes with its first use: some programs have gigabytes of zeros.
        end = vaddr + min(max(memsz, 1), len(content) + 0x10000)
        new = [p for p in range(page_of(vaddr), end, 0x1000) if p not in self.mapped]
        if new:
            self.uc.mem_map(new[0], new[-1] + 0x1000 - new[0], (flags & 1) << 2 | flags & 2 | flags >> 2)  # PF_X is 1, UC_PROT_EXEC 4
        for p in new:
            self.mapped.add(p)
            self.pristine[p] = bytes(0x1000)
        self._poke(vaddr, content)

    def _poke(self, at, content):
        """content becomes part of what each run begins with"""
        while content:
            p = page_of(at)
            n = min(len(content), p + 0x1000 - at)
            if p in self.pristine:
                old = self.pristine[p]
                self.pristine[p] = new = old[:at - p] + content[:n] + old[at - p + n:]
                self.uc.mem_write(p, new)
            at, content = at + n, content[n:]

    def _lazy(self, at, size=0x1000):
        """maps pages whose content depends on their address: small numbers and pointers to scratch"""
        self.uc.mem_map(at, size, UC_PROT_READ | UC_PROT_WRITE)
        for p in range(at, at + size, 0x1000):
            self.mapped.add(p)
            self.pristine[p] = page_content(p)
            self.uc.mem_write(p, self.pristine[p])

    def _on_write(self, uc, access, at, size, value, _):
        if not 0 <= at < 1 << 47:
            return
        self.dirty.add(at >> 12)
        if (at & 0xfff) + size > 0x1000:
            self.dirty.add((at >> 12) + 1)

    def _on_unmapped(self, uc, access, at, size, value, _):
        if at >= 1 << 47:
            self._stop('fault')
            return False
        try:
            for p in {page_of(at), page_of(at + size - 1)} - self.mapped:
                self._lazy(p)
        except UcError:
            return False
        return True

    def read(self, at, n):
        if at + n > 1 << 47:
            return b''
        try:
            return bytes(self.uc.mem_read(at, n))
        except UcError:
            for p in range(page_of(at), at + n, 0x1000):
                if p not in self.mapped:
                    try:
                        self._lazy(p)
                    except UcError:
                        return b''
            return bytes(self.uc.mem_read(at, n))

    def write(self, at, content):
        if not 0x10000 <= at < 0x7fffffff0000:  # the kernel would answer EFAULT, or kill
            return
        self.read(at, len(content))  # maps it
        try:
            self.uc.mem_write(at, content)
        except UcError:
            raise End('no memory at %#x' % at)
        for p in range(at >> 12, (at + len(content) - 1 >> 12) + 1):
            self.dirty.add(p)

    def get(self, name):
        return self.reg(REGS[name])

    def set(self, name, value):
        self.setreg(REGS[name], value)

    # The kinds of instructions

    def _kind(self, at):
        """None, or what the instruction at at is: ('jcc', target, next) or ('call', target, next)"""
        b = self.elf.read(at, 8)
        if b[:1] and 0x70 <= b[0] <= 0x7f or b[:1] == b'\xe3':
            return 'jcc', at + 2 + struct.unpack('<b', b[1:2])[0], at + 2
        if b[:1] == b'\x0f' and 0x80 <= b[1] <= 0x8f:
            return 'jcc', at + 6 + struct.unpack('<i', b[2:6])[0], at + 6
        if b[:1] == b'\xe8':
            return 'call', at + 5 + struct.unpack('<i', b[1:5])[0] & MASK, at + 5
        return None

    def is_injected(self, at):
        return any(a <= at < b for a, b in self.injected)

    def _on_code(self, uc, at, size, _):
        if self.hooking:
            return
        self.steps += 1
        if self.steps > MAX_STEPS:
            self._stop('steps')
            return
        if any(a <= at < b for a, b in self.skip):
            self.stub = True
        elif self.snap:
            self.snap = False
            # Nobody may count on what is below the red zone: signals write there,
            # nor on the return address of a call that is over.
            rsp = self.get('rsp')
            self.write(rsp - 1152, random.Random(rsp).randbytes(1024))
            # The stack of a patched function ends as a whole.
            self.write(rsp - 128 if self.stub else rsp - 8, bytes(128 if self.stub else 8))
            # Its last instruction but one may have been an add, whose flags nobody can want.
            self.trace.append(('after the page', at, self._state() + (self.get('rax'),), self.stub))
            self.stub = False
        if at in self.models and at != self.start:
            self._modelled(at)
            return
        if at in self.kinds:
            kind = self.kinds[at]
        else:
            kind = self.kinds[at] = self._kind(at)
        if kind is None:
            return
        what, target, following = kind
        if what == 'jcc':
            if any(a <= at < b for a, b in self.sites):
                return
            self.decisions += 1
            if self.decisions > MAX_DECISIONS:
                self._stop('decisions')
            elif self.forced:
                n = self.visits[at] = self.visits.get(at, 0) + 1
                taken = self.choose(at, n)
                self.setreg(RIP, target if taken else following)
        elif not self.is_injected(target) and target not in PAGE and not any(a <= at < b for a, b in self.sites):
            n = self.visits[at] = self.visits.get(at, 0) + 1
            if hash((self.seed, at, n)) % 4:  # else it is run
                rsp = self.get('rsp') - 8
                self.set('rsp', rsp)
                self.write(rsp, struct.pack('<Q', following))
                self._modelled(target)

    def _stop(self, why):
        self.over = why
        self.uc.emu_stop()

    # Models

    def _event(self, *event):
        if not STACK <= self.get('rsp') < STACK + STACK_SIZE:
            self.over = 'illegal'
        self.trace.append(event)
        if len(self.trace) > MAX_EVENTS:
            self.over = 'events'

    def _scramble(self, vectors):
        r = random.Random('%d %d' % (self.seed, len(self.trace)))
        regs = list(self.registers.read())
        for i in (1, 2, 6, 7, 8, 9, 10, 11):
            regs[i] = self._value(r)
        regs[16] = r.getrandbits(12) & FLAGS & ~0x400 | regs[16] & 0x400 | 2
        if vectors:
            regs[17:] = struct.unpack('<32Q', r.randbytes(256))
        self.registers.write(regs)
        return r

    def _pop(self):
        rsp = self.get('rsp')
        self.set('rsp', rsp + 8)
        back, = struct.unpack('<Q', self.read(rsp, 8) or bytes(8))
        return back

    def _modelled(self, target):
        """a function of another file, or one that is not run, was called or jumped to"""
        self._event('call', target, self._state())
        r = self._scramble(True)
        self.set('rax', self._value(r))
        self.setreg(RIP, self._pop())
        if self.over:
            self.uc.emu_stop()

    def _answer(self, function, tail=()):
        """what the page's function does; returns rax"""
        rdi, rsi = self.get('rdi'), self.get('rsi')
        arguments = (rdi,) if function == 'time' else (rdi, rsi)
        r = random.Random('%d page %d' % (self.seed, self.pages))
        self.pages += 1
        self._event('page', function, arguments)
        value = r.randrange(1 << 30, 1 << 31)
        if function == 'time':
            if rdi:
                self.write(rdi, struct.pack('<Q', value))
            return value
        first, second = ('<QQ', '<ii') if function == 'gettimeofday' else ('<I', '<I')
        if rdi:
            self.write(rdi, struct.pack(first, *([value] + [r.randrange(1000000)] * (len(first) - 2))))
        if rsi:
            self.write(rsi, struct.pack(second, *([value & 63] + [0] * (len(second) - 2))))
        return 0 if r.random() < 0.8 else MASK - 13  # -EFAULT

    def _fetch(self, pc):
        """execution has come to pc, which is not mapped for it; returns the address at which it continues"""
        if pc == SENTINEL:
            if self.snap and self.stub:
                self.write(self.get('rsp') - 128, bytes(128))
            raise End('returned')
        if pc in PAGE:  # after, where a call site is left
            top = self.get('rsp') + 8
            if any(self.bottom - 16 < self.get(n) < self.bottom + 8 or top - 4096 < self.get(n) + 15 and self.get(n) < top and not top - 128 <= self.get(n) <= top - 24 for n in ('rdi', 'rsi')):
                raise End('illegal')  # it would write over the return address, or below the red zone
            value = self._answer(PAGE[pc])
            self.set('rax', value)
            self.snap = True
            return self._pop()
        if pc in VDSO_CODE:
            rsp = self.get('rsp')
            value = self._answer(VDSO_CODE[pc])
            r = self._scramble(False)
            self.write(rsp - 256, r.randbytes(256))
            self.set('rax', value)
            self.snap = True
            return self._pop()
        self._modelled(pc)
        return self.reg(RIP)

    def _on_syscall(self, uc, _):
        at, number = self.reg(RIP), self.get('rax')
        ours = self.is_injected(at) or self.mode != 'before' and any(a <= at < b for a, b in self.sites)
        if self.hooking:
            value = self.hooking(number, self)
        elif ours and number in NUMBERS:
            value = self._answer(NUMBERS[number])
            self.snap = True
        else:
            self._event('syscall', number, self._state())
            value = random.Random('%d %d' % (self.seed, len(self.trace))).randrange(64)
        flags = self.reg(EFLAGS)
        self.set('rax', value)
        self.set('rcx', at + 2)
        self.set('r11', flags)
        if self.over:
            uc.emu_stop()

    def _on_interrupt(self, uc, number, _):
        self._stop('interrupt %d' % number)

    # States

    def _value(self, r):
        x = r.getrandbits(72)
        k, x = x & 0xff, x >> 8
        if k < 90:
            return SCRATCH + (x % (SCRATCH_SIZE - 0x200) & ~7)
        if k < 140:
            return x & 7
        if k < 166:
            return RSP + 8 * (BELOW + x % (40 - BELOW))
        if k < 192:
            return MASK - x % 200
        return x if k > 244 else x >> 17

    def _state(self):
        """registers but rax, flags, vector registers, and what is around the stack pointer"""
        whole = self.registers.read()
        return tuple(whole[1:16]), whole[16] & FLAGS, tuple(whole[17:]), self.read(whole[4] - 128, 384)

    def reset(self):
        for n in self.dirty:
            p = n << 12
            if p in self.pristine:
                self.uc.mem_write(p, self.pristine[p])
        self.dirty.clear()

    def run(self, start, seed, forced=False, skip=(), inside=False):
        """runs from start, as a function that is called; returns the trace, the last state and how it ended"""
        self.reset()
        uc = self.uc
        r = random.Random(seed)
        self.seed, self.forced, self.start, self.skip = seed, forced, start, skip
        self.trace, self.visits = [], {}
        self.steps = self.decisions = self.pages = 0
        self.snap, self.stub, self.over, self.hooking = False, False, None, None
        self.bottom = rsp = RSP - 8 * r.randrange(4)
        uc.mem_write(RSP - 0x800, r.randbytes(0x800) + struct.pack('<64Q', *(self._value(r) for _ in range(64))))
        self.dirty.update(range(RSP - 0x800 >> 12, (RSP + 0x200 >> 12) + 1))
        regs = [self._value(r) for _ in NAMES]
        for i in 6, 7:  # rsi, rdi
            if r.random() < 0.7:
                regs[i] = r.choice((0, SCRATCH + 64 * r.randrange(64), rsp + 64))
        if inside or r.random() < 0.5:  # a frame pointer leads to a frame
            regs[5] = rsp + 8 * r.randrange(16, 40)
        regs[4] = rsp
        regs.append(r.getrandbits(12) & FLAGS & (MASK if r.random() < 0.2 else ~0x400) | 2)
        self.registers.write(regs + list(struct.unpack('<32Q', r.randbytes(256))))
        uc.mem_write(rsp, struct.pack('<Q', SENTINEL))
        ended = self._go(start)
        return self.trace, self._state() + (self.get('rax'),), ended

    def _go(self, pc):
        try:
            while True:
                try:
                    self.uc.emu_start(pc, SENTINEL - 1, timeout=0, count=20 * MAX_STEPS)
                except UcError as e:
                    if self.over:
                        return self.over
                    pc = self.reg(RIP)
                    if 'fetch' not in str(e).lower() and pc not in VDSO_CODE:
                        return 'fault'
                    pc = self._fetch(pc)
                else:
                    if not self.over:
                        pc = self.reg(RIP)
                        if pc in self.mapped or page_of(pc) in self.mapped:
                            return 'too long'
                        pc = self._fetch(pc)
                if self.over:
                    return self.over
        except End as e:
            return str(e)


def vdso_image():
    """a vDSO: one segment, a hash table, no versions, as the oldest ones may be"""
    names = b'\0' + b'\0'.join(b'__vdso_' + n.encode() for n in VDSO_CODE.values()) + b'\0'
    symbols = bytes(24)
    for at, name in VDSO_CODE.items():
        symbols += struct.pack('<IBBHQQ', names.index(b'__vdso_' + name.encode() + b'\0'), 0x12, 0, 1, at - VDSO, 0x40)
    n = len(VDSO_CODE) + 1
    table = struct.pack('<III', 1, n, 1) + struct.pack('<%dI' % n, 0, *(list(range(2, n)) + [0]))
    dyn, sym, strings, hashes = 0x200, 0x300, 0x500, 0x600
    head = b'\x7fELF\2\1\1' + bytes(9) + struct.pack('<HHIQQQIHHHHHH', 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    head += struct.pack('<IIQQQQQQ', 1, 5, 0, 0, 0, 0x2000, 0x2000, 0x1000)
    head += struct.pack('<IIQQQQQQ', 2, 4, dyn, dyn, dyn, 0x60, 0x60, 8)
    image = bytearray(0x1000)
    image[:len(head)] = head
    for at, content in (dyn, struct.pack('<12Q', 4, hashes, 5, strings, 6, sym, 10, len(names), 11, 24, 0, 0)), (sym, symbols), (strings, names), (hashes, table):
        image[at:at + len(content)] = content
    return bytes(image)
