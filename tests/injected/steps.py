# For gdb: steps through every instruction that the injected code runs for a program's call sites,
# and says at how many of them the backtrace reached main. FALLBACK=1: as if there were no vDSO.
import os
import gdb

gdb.execute("set pagination off")
gdb.execute("set confirm off")
gdb.execute("set breakpoint pending on")
gdb.execute("break middle")
gdb.execute("run")
gdb.execute("delete")

page = None
for line in gdb.execute("info files", to_string=True).splitlines():
    words = line.split()
    if ".vfix" in words:
        page = int(words[0], 16)
assert page, "no section .vfix"
if os.environ.get("FALLBACK"):
    gdb.execute("set {long[6]}%d = {0, 0, 0, 0, 0, 0}" % (page + 0x1000))

# The vDSO, by the auxiliary vector. It is left at once: its functions begin again when the kernel
# has set the time meanwhile, and a slow machine's steps would give it time to do so for ever.
vdso = 0
for line in gdb.execute("info auxv", to_string=True).splitlines():
    if "AT_SYSINFO_EHDR" in line:
        vdso = int(line.split()[-1], 16)

seen, bad = set(), set()


def look(pc):
    names, frame = [], gdb.newest_frame()
    while frame and len(names) < 50:
        names.append(frame.name())
        frame = frame.older()
    seen.add(pc - page)
    # Each function between, once: a stack that is guessed at has others.
    if names[-1] != "main" or "middle" not in names or len(names) > 5:
        bad.add(pc - page)
        print("at +%#x: %s" % (pc - page, names))


while True:
    gdb.execute("stepi", to_string=True)
    frame = gdb.newest_frame()
    pc = frame.pc()
    if page <= pc < page + 0x1000:
        look(pc)
    elif vdso <= pc < vdso + 0x4000:
        gdb.execute("tbreak *{long}$sp", to_string=True)
        gdb.execute("continue", to_string=True)
        pc = gdb.newest_frame().pc()
        if page <= pc < page + 0x1000:
            look(pc)
    elif frame.name() == "main":
        break
print("instructions: %d, bad: %d" % (len(seen), len(bad)))
gdb.execute("kill")
