# libvfix.so: the preload library, and an empty one with its name for 32-bit programs, for which ld.so would
# otherwise print an error. PAGE is the page whose calls it serves; a page other than the kernel's is for tests:
# make preload BUILD=DIR PAGE=ADDRESS.
PAGE =

PRELOAD_OBJECTS = $(patsubst preload/%.c,$(BUILD)/preload/%.o,$(wildcard preload/*.c)) $(BUILD)/preload/entry.o \
	$(BUILD)/preload/standin.o $(BUILD)/preload/fallback.o $(BUILD)/preload/vdso.o $(BUILD)/preload/symbols.o $(BUILD)/preload/auxv.o
PRELOAD_NEEDS   = preload/preload.h preload/mask.h fallback.h vdso.h symbols.h auxv.h syscall.h Makefile preload.mk
PRELOAD_FLAGS   = $(filter-out -Os -fpie,$(CFLAGS)) -O2 -fpic -fvisibility=hidden -fno-strict-aliasing -fstack-usage \
	$(PAGE:%=-DVFIX_PAGE=%ul)

preload: $(BUILD)/libvfix.so $(BUILD)/libvfix32.so

$(BUILD)/preload/%.o: preload/%.c $(PRELOAD_NEEDS)
	@mkdir -p $(@D)
	$(CC) $(PRELOAD_FLAGS) -c -o $@ $<
$(BUILD)/preload/%.o: %.c $(PRELOAD_NEEDS)
	@mkdir -p $(@D)
	$(CC) $(PRELOAD_FLAGS) -c -o $@ $<
$(BUILD)/preload/%.o: preload/%.S Makefile preload.mk
	@mkdir -p $(@D)
	$(CC) $(ASFLAGS) -c -o $@ $<
$(BUILD)/preload/%.o: %.S Makefile preload.mk
	@mkdir -p $(@D)
	$(CC) $(ASFLAGS) -c -o $@ $<

# -z initfirst: before every other initializer (start.c). Without versions: the symbols of any libc match.
$(BUILD)/libvfix.so: $(PRELOAD_OBJECTS) preload/exports preload/prove
	ld -shared -Bsymbolic -soname libvfix.so -nostdlib -init vfix_init --hash-style=both \
		-z initfirst -z now -z relro -z noexecstack -z max-page-size=0x1000 -z noseparate-code \
		--build-id=none -s -o $@.tmp $(PRELOAD_OBJECTS)
	preload/prove $@.tmp preload/exports $(BUILD)/preload/*.su
	mv $@.tmp $@

$(BUILD)/libvfix32.so: preload/empty.S Makefile preload.mk
	@mkdir -p $(@D)
	gcc -m32 -c -o $(BUILD)/empty32.o $<
	ld -m elf_i386 -shared -soname libvfix.so -nostdlib --hash-style=both -z noexecstack -z noseparate-code \
		--build-id=none -s -o $@ $(BUILD)/empty32.o

.PHONY: preload
