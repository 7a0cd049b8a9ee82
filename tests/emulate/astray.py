"""astray: patched files that are wrong on purpose, one for each kind of difference that judge finds.

usage: astray BEFORE AFTER DIR

Writes DIR/NAME, which is AFTER with one call site led astray, and prints a line for each: NAME, a
tab, and words that judge has to say of it.
"""
import os
import struct
import sys

from elf import Elf
from judge import Pair


def main(before, after, directory):
    pair = Pair(before, after)
    e = Elf(after)
    leas = []  # (vaddr of the instruction, its length, its target)
    jumps = []
    for site in pair.sites:
        at = pair.begin(site) or site[0]
        b = e.read(at, 7)
        if b[:1] in (b'\x48', b'\x4c') and b[1:2] == b'\x8d' and b[2] & 0xc7 == 5:
            leas.append((at, 7, at + 7 + struct.unpack('<i', b[3:7])[0]))
        if e.read(site[0], 1) == b'\xe9':
            jumps.append((site[0], 5, site[0] + 5 + struct.unpack('<i', e.read(site[0] + 1, 4))[0]))
    # One whose function calls it at once, and another with another target.
    at, length, target = next(l for l in leas if pair.before.read(l[0] + 7, 2) == b'\xff\xd0')
    other = next(t for _, _, t in leas if t != target and pair.is_time(t) != pair.is_time(target))
    page = next(a for a, b in pair.injected)
    code = e.read(page, 4096)
    cave = page + max(code.find(bytes([fill]) * 64) for fill in (0, 0xcc, 0x90)) + 16
    if cave < page + 16:
        raise SystemExit('astray: no space in the injected page')

    def jump(opcode, source, to):
        return opcode + struct.pack('<i', to - source - len(opcode) - 4)

    def lea(to):
        return e.read(at, 3) + struct.pack('<i', to - at - 7)

    def write(name, words, *changes):
        data = bytearray(e.data)
        for vaddr, content in changes:
            off = e.offset(vaddr)
            data[off:off + len(content)] = content
        path = os.path.join(directory, name)
        with open(path, 'wb') as f:
            f.write(data)
        print(name, words, sep='\t')

    def through(name, words, code):
        """the site leads to code, and from there to the trampoline"""
        write(name, words, (cave, code + jump(b'\xe9', cave + len(code), target)), (at, lea(cave)))

    write('wrong-function', 'before', (at, lea(other)))
    write('into-the-middle', 'before', (at, lea(target + 5)))     # behind the lea that keeps the red zone
    write('deeper-in-the-middle', 'before', (at, lea(target + 17)))
    write('endless', 'after it does not', (cave, b'\xeb\xfe'), (at, lea(cave)))  # jmp to itself
    write('lost-load', 'call', (at, b'\x0f\x1f\x80\0\0\0\0'))
    write('wrong-length', 'before', (at, jump(b'\xe8', at, target)))
    write('wrong-register', 'before', (at, e.read(at, 2) + bytes([e.read(at + 2, 1)[0] ^ 8]) + e.read(at + 3, 4)))
    through('register', 'r9', b'\x41\xb9\7\0\0\0')            # mov $7, %r9d
    through('kept-register', 'rbx', b'\xbb\7\0\0\0')          # mov $7, %ebx
    through('flags', 'flags', b'\xf5')                        # cmc
    through('direction', 'flags', b'\xfd')                    # std
    through('vector', 'xmm3', b'\x66\x0f\xef\xdb')            # pxor %xmm3, %xmm3
    through('red-zone', 'red zone', b'\x48\xc7\x44\x24\xc0\0\0\0\0')   # movq $0, -64(%rsp)
    through('stack', 'stack', b'\x48\xc7\x44\x24\x18\0\0\0\0')         # movq $0, 24(%rsp)
    through('argument', 'argument', b'\x48\xff\xcf\x48\xff\xcf')       # dec %rdi, twice
    through('memory', ' after', b'\x41\xc6\x04\x24\7')         # movb $7, (%r12), which may lead anywhere
    body = jump(b'\xe8', cave, target) + b'\x48\x8d\x40\x01\xc3'  # call; lea 1(%rax), %rax; ret
    write('result', 'rax', (cave, body), (at, lea(cave)))
    body = jump(b'\xe8', cave, target)
    body += b'\xff\x74\x24\xf8\x48\x83\xc4\x08' + b'\xc2\x08\0'  # and takes eight bytes too many off the stack
    write('stack-pointer', 'rsp', (cave, body), (at, lea(cave)))
    if jumps:
        start, _, to = jumps[0]
        write('wrong-entry', 'before', (start, jump(b'\xe9', start, other if pair.is_time(to) == pair.is_time(target) else target)))


if __name__ == '__main__':
    main(*sys.argv[1:])
