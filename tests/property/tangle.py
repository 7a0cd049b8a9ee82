#!/usr/bin/python3
"""tangle: random functions in assembly, before and after patching.

usage: tangle.py -v VFIX -o NOVSYSCALL -d DIR [-s SEED] [-n PROGRAMS]

Each program is one function of a few blocks between which it jumps: directly, by tables of several kinds, through
registers, by push and ret. Two registers hold functions, one of which may be the page's time; blocks copy, swap, spill
and call them, and call helpers with conventions of their own. About half of the functions look at such a value as a
number, in one place: whoever overlooks that place patches the load, and the number is another one. A program
adds up what it sees, and writes the sum.

The sum must be the same before and after patching, also for stripped programs, and under the oracle if vfix leaves
no call site. Prints a line for each program that differs; exit status 1 if one does.
"""
import argparse
import concurrent.futures
import json
import os
import random
import shutil
import subprocess
import sys

CALLED = '\txor %edi, %edi\n\tcall *{}\n\tcmp $1000000000, %rax\n\tsetg %al\n'
ADDED = '\tmovzbl %al, %eax\n\tadd %rax, %r14\n\trol $3, %r14\n'
BIT = '\tmov %r15, %rax\n\tror $1, %r15\n\tand $1, %eax\n'  # one bit of the input, in rax
SAVED = 'rbx', 'r12', 'r13'
SLOTS = 0, 8, 16, 24

LOADS = (
    'mov $0xffffffffff600400, {x}', 'movabs $0xffffffffff600400, {x}', 'lea 0xffffffffff600400, {x}', 'push $-10484736\n\tpop {x}',
    'movq $0xffffffffff600400, {s}(%rsp)\n\tmov {s}(%rsp), {x}', 'mov $0xff600400, %eax\n\tmovslq %eax, {x}',
    'mov $0xffffffffff600400, %rax\n\tmov %rax, {s}(%rsp)\n\tmov {s}(%rsp), {x}')
HELPERS = (
    'ret', 'xchg {a}, {b}\n\tret', 'mov {a}, {b}\n\tret', 'push {x}\n\tpop %rax\n\tret', 'jmp last', 'test $1, %r15\n\tjnz last\n\tret',
    'cmp {x}, same(%rip)\n\tsete %al\n' + ADDED + '\tret', 'sub $8, %rsp\n' + CALLED.replace('{}', '{x}') + '\tadd $8, %rsp\n\tret',
    'push %rbx\n\tpush %r12\n\txor %ebx, %ebx\n\txor %r12d, %r12d\n\tpop %r12\n\tpop %rbx\n\tret', 'sub $8, %rsp\n\tcall last\n\tadd $8, %rsp\n\tret')
LAST = (
    'ret', 'nop\n\tret', 'xchg {a}, {b}\n\tret', 'cmp {a}, same(%rip)\n\tsete %al\n' + ADDED + '\tret',
    'mov 8(%rsp), %rax\n\tcmp %rax, same(%rip)\n\tsete %al\n' + ADDED + '\tret')
OPS = (
    'mov {x}, {y}', 'lea one(%rip), {y}', 'LOAD', CALLED.replace('{}', '{x}') + ADDED, 'push {x}\n\tpop {y}', 'mov {x}, {s}(%rsp)',
    'mov {x}, {s}(%rsp)\n\tmov {s}(%rsp), {y}', 'xchg {x}, {y}', 'call HELPER', 'test $2, %r15\n\tcmovz {x}, {y}',
    'mov {x}, {s}(%rsp)\n\tcall HELPER\n' + CALLED.replace('{}', '{s}(%rsp)') + ADDED, 'mov {x}, %r10\n' + CALLED.replace('{}', '%r10') + ADDED,
    'mov {x}, %rax\n\tmov %rax, %r11\n' + CALLED.replace('{}', '%r11') + ADDED)
# Numbers that are the same wherever a program is loaded.
LOOKS = (
    'cmp {x}, same(%rip)\n\tsete %al', 'mov same(%rip), %rax\n\tcmp {x}, %rax\n\tsete %al', 'mov {x}, %rax\n\txor same(%rip), %rax\n\tsete %al',
    'mov {x}, %rax\n\tsub same(%rip), %rax\n\tsete %al', 'mov {x}, %rcx\n\tmov same(%rip), %rax\n\tcmp %ecx, %eax\n\tsete %al',
    'mov {x}, {s}(%rsp)\n\tmov same(%rip), %rax\n\tcmp %rax, {s}(%rsp)\n\tsete %al', 'mov {x}, %rax\n\tshr $63, %rax', 'test {x}, {x}\n\tsets %al',
    'mov {x}, %rax\n\tand $0x7f, %eax', 'push {x}\n\tpop %rax\n\timul $31, %rax, %rax', 'mov {x}, {s}(%rsp)\n\tmovzbl {s}+7(%rsp), %eax',
    'movq {x}, %xmm0\n\tmovq %xmm0, %rax\n\tshr $40, %rax', 'bt $63, {x}\n\tsetc %al', 'bsr {x}, %rax')
JUMP = '\tlea {t}(%rip), %rcx\n\t'
# How a block ends: what it does, its table, and what excludes it: abs, that it is a PIE; far, that the function has two parts.
ENDS = (
    (BIT + '\ttest %eax, %eax\n\tjz {l}\n\tjmp {m}', None, ''),
    ('\tjmp {l}', None, ''),
    (BIT + JUMP + 'jmp *(%rcx,%rax,8)', '.quad {l}, {m}', 'abs'),
    (BIT + JUMP + 'shl $4, %eax\n\tmov (%rcx,%rax), %rdx\n\tjmp *%rdx', '.quad {l}, 5, {m}, 7', 'abs'),
    (BIT + JUMP + 'movslq (%rcx,%rax,4), %rax\n\tadd %rcx, %rax\n\tjmp *%rax', '.long {l} - {t}, {m} - {t}', ''),
    (BIT + JUMP + 'add (%rcx,%rax,8), %rcx\n\tjmp *%rcx', '.quad {l} - {t}, {m} - {t}', ''),
    (BIT + JUMP + 'movslq (%rcx,%rax,4), %rax\n\tlea .Lfrom(%rip), %rdx\n\tadd %rdx, %rax\n\tjmp *%rax', '.long {l} - .Lfrom, {m} - .Lfrom', 'far'),
    (BIT + JUMP + 'movswq (%rcx,%rax,2), %rax\n\tlea .Lfrom(%rip), %rdx\n\tadd %rdx, %rax\n\tjmp *%rax', '.word {l} - .Lfrom, {m} - .Lfrom', 'far'),
    (BIT + '\tlea {l}(%rip), %rcx\n\tlea {m}(%rip), %rdx\n\ttest %eax, %eax\n\tcmovz %rdx, %rcx\n\tjmp *%rcx', None, ''),
    (BIT + '\tlea {l}(%rip), %rcx\n\ttest %eax, %eax\n\tjz 1f\n\tlea {m} - {l}(%rcx), %rcx\n1:\tjmp *%rcx', None, 'far'),
    (BIT + '\tlea {l}(%rip), %rcx\n\tlea {m}(%rip), %rdx\n\ttest %eax, %eax\n\tcmovz %rdx, %rcx\n\tpush %rcx\n\tret', None, ''),
    ('\ttest %ebp, %ebp\n\tjns {l}\n\tcall die', None, ''),
    ('\ttest %ebp, %ebp\n\tjns {l}\n\tcall *dies(%rip)', None, ''),
)
MAIN = '''
	.type die, @function
die:	mov $60, %eax
	mov $3, %edi
	syscall
	ret
	.size die, . - die
	.globl _start
	.type _start, @function
_start:	lea die(%rip), %rax
	mov %rax, dies(%rip)
	notq same(%rip)
	xor %r14d, %r14d
	mov $60, %r13d
1:	movabs $0x9e3779b97f4a7c15, %r15
	imul %r13, %r15
	mov $25, %ebp
	push %r13
	call f
	pop %r13
	dec %r13d
	jnz 1b
	mov %r14, out(%rip)
	mov $1, %eax
	mov $1, %edi
	lea out(%rip), %rsi
	mov $8, %edx
	syscall
	xor %edi, %edi
	mov $60, %eax
	syscall
	hlt
	.size _start, . - _start
	.data
	.balign 8
same:	.quad 0x009ffbff
out:	.quad 0
dies:	.quad 0
count:	.long 0
'''


def function(name, body, cfi=True):
    if cfi:
        body = body.replace('sub $8, %rsp', 'sub $8, %rsp\n\t.cfi_adjust_cfa_offset 8').replace('add $8, %rsp', 'add $8, %rsp\n\t.cfi_adjust_cfa_offset -8')
        body = '\t.cfi_startproc\n' + body + '\n\t.cfi_endproc'
    return '\t.type {0}, @function\n{0}:\n{1}\n\t.size {0}, . - {0}\n'.format(name, body)


class Program:
    """one random program: its text and how it is linked"""

    def __init__(self, seed):
        r = self.r = random.Random(seed)
        self.pie, self.parts, n = r.random() < 0.35, 1 + (r.random() < 0.3), r.randint(4, 9)
        self.a, self.b = ('%' + reg for reg in r.sample(SAVED, 2))
        self.loads, self.helpers, self.tables = r.sample(LOADS, 2), [], []
        self.kinds = r.sample(HELPERS, r.randint(1, 2))
        unfit = set(['abs'] * self.pie + ['far'] * (self.parts - 1))
        self.ends = [e for e in [ENDS[0]] + r.sample(ENDS, r.randint(1, 4)) if not unfit & set(e[2].split())]
        ops = r.sample(OPS, r.randint(2, 6))
        look = r.randrange(n) if r.random() < 0.5 else None
        blocks = []
        for i in range(n):
            text = '.L%d:\tdec %%ebp\n\tjs .Ldone\n' % i
            for _ in range(r.randint(1, 3)):
                text += '\t' + self.fill(r.choice(ops)) + '\n'
            if i == look:
                text += '\t' + self.fill(r.choice(LOOKS)) + '\n' + ADDED
            blocks.append(text + self.end(n))
        r.shuffle(blocks)
        self.text = self.source(blocks)

    def fill(self, text):
        r = self.r
        x, y = r.sample((self.a, self.b), 2)
        if text == 'LOAD':
            text = r.choice(self.loads)
        if 'HELPER' in text:
            name = 'h%d' % len(self.helpers)
            filler = '\tincl count(%rip)\n' * (14 * (r.random() < 0.5))
            self.helpers.append(None)
            self.helpers[-1] = function(name, filler + '\t' + self.fill(r.choice(self.kinds)), r.random() < 0.5)
            text = text.replace('HELPER', name)
        return text.format(x=x, y=y, s=r.choice(SLOTS), a=self.a, b=self.b)

    def end(self, n):
        text, table, unfit = self.r.choice(self.ends)
        names = {'l': '.L%d' % self.r.randrange(n), 'm': '.L%d' % self.r.randrange(n), 't': 'T%d' % len(self.tables)}
        if table:
            self.tables.append(('abs' in unfit, names['t'] + ':\t' + table.format(**names)))
        return text.format(**names) + '\n'

    def source(self, blocks):
        r, cfi = self.r, self.r.random() < 0.7
        note = lambda s: s + '\n' if cfi else ''
        body, depth = '', 8
        for reg in SAVED:
            depth += 8
            body += '\tpush %%%s\n' % reg + note('\t.cfi_def_cfa_offset %d\n\t.cfi_offset %%%s, -%d' % (depth, reg, depth))
        frame = note('\t.cfi_def_cfa_offset %d' % (depth + 32))
        saved = note('\n'.join('\t.cfi_offset %%%s, -%d' % (reg, 16 + 8 * i) for i, reg in enumerate(SAVED)))
        body += '\tsub $32, %rsp\n' + frame + '\tlea one(%%rip), %s\n' % self.b + ''.join('\tmov %s, %d(%%rsp)\n' % (self.b, s) for s in SLOTS)
        body += '\t' + r.choice(self.loads).format(x=self.a, s=0) + '\n' + CALLED.format(self.a) + ADDED + '.Lfrom:\tjmp .L0\n'
        cut = r.randint(1, len(blocks)) if self.parts > 1 else len(blocks)
        done = '.Ldone:\tadd $32, %rsp\n' + note('\t.cfi_def_cfa_offset %d' % depth)
        for reg in reversed(SAVED):
            depth -= 8
            done += '\tpop %%%s\n' % reg + note('\t.cfi_def_cfa_offset %d' % depth)
        f = function('f', note('\t.cfi_startproc') + body + ''.join(blocks[:cut]) + done + '\tret\n' + note('\t.cfi_endproc'), False)
        if cut < len(blocks):
            cold = note('\t.cfi_startproc') + frame + saved + ''.join(blocks[cut:]) + note('\t.cfi_endproc')
            f += '\t.section .text.unlikely, "ax"\n' + function('f.cold', cold, False) + '\t.text\n'
        # A caller's frame is read by what it calls or jumps to, not by what that calls.
        last = r.choice(LAST[:-1] if any('call last' in k for k in self.kinds) else LAST)
        others = ''.join(self.helpers) + function('last', '\t' + last.format(a=self.a, b=self.b))
        text = '\t.text\n' + function('one', '\tmov $7, %eax\n\tret') + (others + f if r.random() < 0.5 else f + others) + MAIN
        text += '\t.section .data.rel.ro, "aw"\n\t.balign 8\n' + ''.join(t + '\n' for absolute, t in self.tables if absolute)
        return text + '\t.section .rodata\n\t.balign 8\n' + ''.join('\t.balign %d\n%s\n' % (r.choice((4, 8)), t) for absolute, t in self.tables if not absolute)

    def link(self):
        return ['-static-pie' if self.pie else '-static'] + self.r.choice(([], [], ['-fuse-ld=lld'], [] if self.pie else ['-fuse-ld=gold'], ['-Wl,-z,noseparate-code']))


def run(args):
    try:
        p = subprocess.run(['setarch', '-R'] + args, capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:
        return 'timeout', b''
    return p.returncode, p.stdout


def patch(vfix, source, to):
    """the programs in which a call site is left"""
    p = subprocess.run([vfix, 'patch', '--format', 'json', '-o', to, source], capture_output=True)
    if p.returncode not in (0, 3):
        raise SystemExit('vfix patch %s: status %d: %s' % (source, p.returncode, p.stderr.decode()))
    return {os.path.basename(f['path']) for r in json.loads(p.stdout)['results'] for f in r['files'] if any(s['form'] == 'left' for s in f['sites'])}


def main():
    a = argparse.ArgumentParser()
    a.add_argument('-v', default='bin/vfix')
    a.add_argument('-o', default='tests/build/novsyscall')
    a.add_argument('-d', required=True)
    a.add_argument('-s', type=int, default=1)
    a.add_argument('-n', type=int, default=100)
    a = a.parse_args()
    shutil.rmtree(a.d, ignore_errors=True)
    for d in 'bin', 'bare', 'src':
        os.makedirs(os.path.join(a.d, d))

    def build(name):
        p = Program(int(name))
        source = os.path.join(a.d, 'src', name + '.S')
        with open(source, 'w') as f:
            f.write(p.text)
        subprocess.run(['gcc', '-nostdlib', '-w'] + p.link() + ['-o', os.path.join(a.d, 'bin', name), source], check=True)
        subprocess.run(['strip', '-o', os.path.join(a.d, 'bare', name), os.path.join(a.d, 'bin', name)], check=True)

    names = [str(seed) for seed in range(a.s, a.s + a.n)]
    wrong = whole = 0
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(build, names))
        for way in 'bin', 'bare':
            after = os.path.join(a.d, way + '-after')
            left = patch(a.v, os.path.join(a.d, way), after)

            def look(name):
                before = run([os.path.join(a.d, 'bin', name)])
                all = [run([os.path.join(after, name)])] + ([] if name in left else [run([a.o, os.path.join(after, name)])])
                return before, all

            for name, (before, all) in zip(names, pool.map(look, names)):
                whole += name not in left
                if before[0] != 0 or any(x != before for x in all):
                    wrong += 1
                    print('%s %s: before %s, after and under the oracle %s' % (way, name, before, all))
    print('%d programs, twice, %d wrong; patched whole: %d' % (len(names), wrong, whole), file=sys.stderr)
    return 1 if wrong or not whole else 0


if __name__ == '__main__':
    sys.exit(main())
