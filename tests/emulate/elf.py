"""An ELF file as its bytes say: segments, symbols, relocations, unwind table.

For files that a compiler and vfix made: nothing here is hardened. It shares no code with the
rewriter that it helps to judge.
"""
import bisect
import struct

PT_LOAD, PT_DYNAMIC, PT_GNU_EH_FRAME = 1, 2, 0x6474e550
PF_X = 1
DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_INIT, DT_JMPREL, DT_PLTRELSZ = 4, 5, 6, 7, 8, 12, 23, 2
DT_INIT_ARRAY, DT_RELRSZ, DT_RELR = 25, 35, 36
ADDRESSES = {DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_INIT, DT_JMPREL, DT_INIT_ARRAY, DT_RELR, 3, 13, 26}
R_64, R_GLOB_DAT, R_JUMP_SLOT, R_RELATIVE = 1, 6, 7, 8
BIAS = 0x550000000000  # where a file that can be anywhere is: small numbers are not addresses in it
EXTERN = 0x7e0000000000  # where symbols of other files are said to be, 16 bytes each


class Elf:
    def __init__(self, path):
        self.path = path
        self.data = d = open(path, 'rb').read()
        if d[:5] != b'\x7fELF\x02' or d[18:20] != b'\x3e\x00':
            raise ValueError('not a 64-bit x86-64 ELF file')
        self.type, = struct.unpack_from('<H', d, 16)
        self.entry, phoff, shoff = struct.unpack_from('<QQQ', d, 24)
        phentsize, phnum, shentsize, shnum, shstrndx = struct.unpack_from('<HHHHH', d, 54)
        self.phdrs = [struct.unpack_from('<IIQQQQQQ', d, phoff + i * phentsize) for i in range(phnum)]
        # Every address below, and all that reads them, is one with the bias in it.
        low = min((p[3] for p in self.phdrs if p[0] == PT_LOAD), default=0)
        self.bias = BIAS if self.type == 3 and low < 1 << 20 else 0
        self.entry += self.bias
        self.phdrs = [p[:3] + (p[3] + self.bias,) + p[4:] for p in self.phdrs]
        self.loads = [(flags, off, vaddr, filesz, memsz) for t, flags, off, vaddr, _, filesz, memsz, _ in self.phdrs if t == PT_LOAD]
        self.sections = []
        if shoff and shnum and shoff + shnum * shentsize <= len(d):
            raw = [struct.unpack_from('<IIQQQQIIQQ', d, shoff + i * shentsize) for i in range(shnum)]
            names = raw[shstrndx]
            for s in raw:
                at = names[4] + s[0]
                if s[2] & 2:  # SHF_ALLOC
                    s = s[:3] + (s[3] + self.bias,) + s[4:]
                self.sections.append((d[at:d.index(b'\0', at)].decode(), s))
        self.dynamic = {}
        for t, _, off, _, _, filesz, _, _ in self.phdrs:
            if t == PT_DYNAMIC:
                for i in range(0, filesz - 15, 16):
                    tag, value = struct.unpack_from('<QQ', d, off + i)
                    if tag == 0:
                        break
                    self.dynamic.setdefault(tag, value + self.bias if tag in ADDRESSES else value)
        self._symbols()
        self._relocations()
        self._unwind()

    def offset(self, vaddr):
        """the offset in the file, or None"""
        for _, off, at, filesz, _ in self.loads:
            if at <= vaddr < at + filesz:
                return off + vaddr - at
        return None

    def read(self, vaddr, n):
        off = self.offset(vaddr)
        return b'' if off is None else self.data[off:off + n]

    def executable(self, vaddr):
        return any(flags & PF_X and at <= vaddr < at + filesz for flags, _, at, filesz, _ in self.loads)

    def _symbols(self):
        self.functions = {}   # start: size, of functions
        self.labels = set()   # other symbols in code
        self.exported = set()  # functions that other files or objects can name
        self.names = {}
        self.dynsym = []
        tables = [(s[4], s[5], self.sections[s[6]][1][4]) for _, s in self.sections if s[1] in (2, 11)]
        if DT_SYMTAB in self.dynamic:
            off, strings = self.offset(self.dynamic[DT_SYMTAB]), self.offset(self.dynamic[DT_STRTAB])
            # without section headers DT_HASH alone says how many; the string table follows in practice
            size = max(0, strings - off) if off is not None and strings is not None else 0
            if off is not None and strings is not None:
                self.dynsym = [self._symbol(off + i, strings) for i in range(0, size - 23, 24)]
                tables.append((off, size, strings))
        for off, size, strings in tables:
            for i in range(0, size - 23, 24):
                name, info, shndx, value, length = self._symbol(off + i, strings)
                value += self.bias
                if not shndx or shndx >= 0xff00 or not self.executable(value):
                    continue
                self.names.setdefault(value, name)
                if info & 15 in (2, 10):
                    self.functions[value] = max(length, self.functions.get(value, 0))
                    if info >> 4:
                        self.exported.add(value)
                elif info & 15 == 0:
                    self.labels.add(value)

        self.ordered = sorted(s for s, size in self.functions.items() if size)

    def _symbol(self, at, strings):
        name, info, _, shndx, value, length = struct.unpack_from('<IBBHQQ', self.data, at)
        at = strings + name
        return self.data[at:self.data.find(b'\0', at)].decode(errors='replace'), info, shndx, value, length

    def _relocations(self):
        """self.words: what ld.so puts where, for a file loaded at its own addresses"""
        self.words = {}
        spans = [(self.dynamic.get(DT_RELA), self.dynamic.get(DT_RELASZ, 0)), (self.dynamic.get(DT_JMPREL), self.dynamic.get(DT_PLTRELSZ, 0))]
        if not self.dynamic:  # static: IRELATIVE alone, which an emulator of single functions can do without
            spans = []
        for at, size in spans:
            for i in range(0, size if at else 0, 24):
                where, info, addend = struct.unpack('<QQq', self.read(at + i, 24))
                where += self.bias
                kind, symbol = info & 0xffffffff, info >> 32
                if kind == R_RELATIVE:
                    self.words[where] = addend + self.bias & (1 << 64) - 1
                elif kind in (R_64, R_GLOB_DAT, R_JUMP_SLOT) and symbol < len(self.dynsym):
                    _, _, shndx, value, _ = self.dynsym[symbol]
                    self.words[where] = (value + self.bias if shndx else EXTERN + symbol * 16) + (addend if kind == R_64 else 0)
        where = 0
        at = self.dynamic.get(DT_RELR)
        for i in range(0, self.dynamic.get(DT_RELRSZ, 0) if at else 0, 8):
            entry = int.from_bytes(self.read(at + i, 8), 'little')
            if entry & 1 == 0:
                bits, base, where = 1, entry, entry + 8
            else:
                bits, base, where = entry >> 1, where, where + 63 * 8
            for j in range(63):
                if bits >> j & 1:
                    place = base + 8 * j + self.bias
                    self.words[place] = int.from_bytes(self.read(place, 8), 'little') + self.bias

    def _unwind(self):
        """self.fdes: sorted (start, end)"""
        self.fdes = []
        at = None
        for t, _, _, vaddr, _, _, _, _ in self.phdrs:
            if t == PT_GNU_EH_FRAME:
                head = self.read(vaddr, 4)
                if len(head) == 4 and head[0] == 1:
                    at, _ = self._pointer(head[1], vaddr + 4)
        if at is None:
            at = next((s[3] for name, s in self.sections if name == '.eh_frame'), None)
        cies = {}
        while at is not None:
            head = self.read(at, 8)
            if len(head) < 8:
                break
            length, what = struct.unpack('<II', head)
            if length in (0, 0xffffffff):
                break
            if what == 0:
                cies[at] = self._cie(at)
            else:
                encoding = cies.get(at + 4 - what)
                if encoding is not None:
                    start, p = self._pointer(encoding, at + 8)
                    size, _ = self._pointer(encoding & 0x0f, p)
                    self.fdes.append((start, start + size))
            at += length + 4
        self.fdes.sort()
        self.starts = [f[0] for f in self.fdes]

    def _cie(self, at):
        """the encoding of addresses"""
        text = self.read(at + 9, 16)
        augmentation = text[:text.index(b'\0')]
        p = at + 9 + len(augmentation) + 1
        for _ in range(3):  # alignments, return register
            _, p = self._uleb(p)
        encoding = 0
        if augmentation[:1] == b'z':
            _, p = self._uleb(p)
            for c in augmentation[1:]:
                if c == ord('R'):
                    encoding, p = self.read(p, 1)[0], p + 1
                elif c == ord('L'):
                    p += 1
                elif c == ord('P'):
                    _, p = self._pointer(self.read(p, 1)[0], p + 1)
        return encoding

    def _uleb(self, p):
        value = shift = 0
        while True:
            b = self.read(p, 1)[0]
            p += 1
            value |= (b & 127) << shift
            shift += 7
            if b < 128:
                return value, p

    def _pointer(self, encoding, p):
        """the pointer at p, and what follows it (DW_EH_PE_*)"""
        form = encoding & 0x0f
        if form == 1:
            value, after = self._uleb(p)
        else:
            code = {0: '<Q', 2: '<H', 3: '<I', 4: '<Q', 9: '<q', 0xa: '<h', 0xb: '<i', 0xc: '<q'}[form]
            after = p + struct.calcsize(code)
            value, = struct.unpack(code, self.read(p, after - p))
        if encoding & 0x70 == 0x10:
            value += p
        elif encoding & 0x70 == 0x30:  # relative to .eh_frame_hdr: only inside it
            raise ValueError('datarel pointer')
        return value & (1 << 64) - 1, after

    def fde(self, pc):
        """the FDE (start, end) that covers pc, or None"""
        i = bisect.bisect_right(self.starts, pc) - 1
        return self.fdes[i] if i >= 0 and pc < self.fdes[i][1] else None

    def function(self, pc):
        """start and end of the function around pc, of FDE or symbol; None where neither has it"""
        f = self.fde(pc)
        if f:
            return f
        i = bisect.bisect_right(self.ordered, pc) - 1
        if i >= 0 and pc < self.ordered[i] + self.functions[self.ordered[i]]:
            return self.ordered[i], self.ordered[i] + self.functions[self.ordered[i]]
        return None
