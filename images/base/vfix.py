"""yum plugin: patches what rpm has just unpacked, before any %post runs on it.

rpm unpacks a package, reports the last INST_PROGRESS (amount equal to total; lib/psm.c,
PSM_PROCESS), and then runs its %post, which may be a static helper of the old libc that no
preload reaches. So the files of the package are patched at that report; a hook after the
transaction looks at everything else that has changed. For yum 3 on Python 2.4 and later.
"""
import os
import subprocess

import yum.rpmtrans
from yum.plugins import TYPE_CORE

requires_api_version = '2.1'
plugin_type = (TYPE_CORE,)

VFIX = '/vfix/vfix'
STAMP = '/vfix/patched'
AT_ONCE = 500  # names on one command line


def patch(*args):
    """Runs vfix patch -i. A failure is reported on stderr and does not end the transaction."""
    command = [VFIX, 'patch', '-i', '-q'] + list(args)
    null = open(os.devnull, 'r+')
    try:
        try:
            subprocess.Popen(command, stdin=null, stdout=null, close_fds=True).wait()
        except OSError:
            # rpm's own SIGCHLD handler may have reaped it first.
            pass
    finally:
        null.close()


def is_elf(name):
    """Whether a path is a regular file that begins as an ELF file does."""
    if os.path.islink(name) or not os.path.isfile(name):
        return False
    try:
        f = open(name, 'rb')
    except IOError:
        return False
    try:
        return f.read(4) == '\x7fELF'.encode('latin-1')
    finally:
        f.close()


def header_of(transaction, key):
    """The header of the package that a callback is about; key is (header, path) in yum 3.2.22
    and a member of the transaction later."""
    if isinstance(key, tuple):
        return key[0]
    member = transaction._getTxmbr(key)[1]
    return member.po.returnLocalHeader()


def unpacked(transaction, key):
    """Patches the files of a package. Packages that it cannot identify are left to posttrans_hook."""
    try:
        names = header_of(transaction, key)['filenames']
    except Exception:
        patch('-x', '--since', STAMP, '/')
        return
    names = [name for name in names if is_elf(name)]
    for start in range(0, len(names), AT_ONCE):
        patch(*names[start:start + AT_ONCE])


def watch(progress):
    """Wraps RPMTransaction._instProgress."""
    def watched(self, amount, total, key):
        progress(self, amount, total, key)
        if key is not None and not isinstance(key, str) and amount == total and not getattr(self, 'test', False):
            unpacked(self, key)
    return watched


def config_hook(conduit):
    yum.rpmtrans.RPMTransaction._instProgress = watch(yum.rpmtrans.RPMTransaction._instProgress)


def posttrans_hook(conduit):
    patch('-x', '--since', STAMP, '/')
