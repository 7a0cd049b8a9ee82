# libvfix.so: the preload library, and an empty one with its name for 32-bit programs, for which ld.so would
# otherwise print an error. PAGE is the page whose calls it serves; a page other than the kernel's is for tests:
# make preload BUILD=DIR PAGE=ADDRESS.
PAGE =

PRELOAD_C       = signal action sigaction oldsignals fail masks waits contexts stack next state serve start time sandbox heal lock job near code changing log
PRELOAD_S       = entry thread syscall
PRELOAD_OBJECTS = $(PRELOAD_C:%=$(BUILD)/preload/%.o) $(PRELOAD_S:%=$(BUILD)/preload/%.o) \
	$(BUILD)/preload/vdso.o $(BUILD)/preload/symbols.o $(BUILD)/preload/auxv.o $(CORE:%.c=$(BUILD)/preload/%.o)
# Unwinders go from a handler's frame to the interrupted one, so these files have unwind tables.
PRELOAD_FLAGS   = $(CORE_FLAGS) $(filter-out -fpie -fno-asynchronous-unwind-tables -fno-unwind-tables,$(CFLAGS)) \
	-fpic -fvisibility=hidden -fasynchronous-unwind-tables -fno-strict-aliasing -fstack-usage \
	$(PAGE:%=-DVFIX_PAGE=%)

preload: $(BUILD)/libvfix.so $(BUILD)/libvfix32.so

$(BUILD)/preload/%.o: preload/%.c $(wildcard preload/*.h core/*.h) vdso.h symbols.h auxv.h syscall.h $(INJECTED) Makefile preload.mk
	@mkdir -p $(@D)
	$(CC) $(PRELOAD_FLAGS) -c -o $@ $<
$(BUILD)/preload/%.o: %.c $(wildcard core/*.h) vdso.h symbols.h auxv.h syscall.h $(INJECTED) Makefile preload.mk
	@mkdir -p $(@D)
	$(CC) $(PRELOAD_FLAGS) -c -o $@ $<
$(BUILD)/preload/%.o: preload/%.S Makefile preload.mk
	@mkdir -p $(@D)
	$(CC) $(ASFLAGS) -c -o $@ $<

# -z initfirst: before every other initializer (start.c). Without versions: the symbols of any libc match.
$(BUILD)/libvfix.so: $(PRELOAD_OBJECTS) preload/exports preload/prove
	ld -shared -Bsymbolic -soname libvfix.so -nostdlib -init vfix_init --hash-style=both --eh-frame-hdr \
		-z initfirst -z now -z relro -z noexecstack -z max-page-size=0x1000 -z noseparate-code \
		--build-id=none -s -o $@.tmp $(PRELOAD_OBJECTS)
	preload/prove $@.tmp preload/exports $(PRELOAD_C:%=$(BUILD)/preload/%.su)
	mv $@.tmp $@

$(BUILD)/libvfix32.so: preload/empty.S Makefile preload.mk
	@mkdir -p $(@D)
	gcc -m32 -c -o $(BUILD)/empty32.o $<
	ld -m elf_i386 -shared -soname libvfix.so -nostdlib --hash-style=both -z noexecstack -z noseparate-code \
		--build-id=none -s -o $@ $(BUILD)/empty32.o

.PHONY: preload
