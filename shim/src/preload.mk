# libvfix.so: the preload library. PAGE is the page whose calls it serves; another one than
# the kernel's is for tests.
