# The programs that vfix bench runs besides vfix-measure: a program that calls the functions of its libc, the old
# functions in separate libraries, and the preload library for the twin of the page. A call to the twin, which no
# kernel maps, faults on every host, like a call to the page on a kernel that does not serve it.
VSYSCALL_PAGE = 0xffffffffff600000
TWIN_PAGE     = 0xffffffffff5ff000

$(BUILD)/linked/calls.o: linked/calls.c syscall.h linked.mk Makefile
	@mkdir -p $(@D)
	$(CC) $(filter-out -Os -fpie,$(CFLAGS)) -O2 -fPIC -c -o $@ $<
# A libc to link with that has the names without versions.
$(BUILD)/linked/libc.so.6: linked/stubs.S linked.mk
	@mkdir -p $(@D)
	$(CC) $(ASFLAGS) -DPAGE=$(VSYSCALL_PAGE) -c -o $(BUILD)/linked/libc.o $<
	ld -shared -soname libc.so.6 -o $@ $(BUILD)/linked/libc.o
$(BUILD)/vfix-measure-libc: $(BUILD)/linked/calls.o $(BUILD)/linked/libc.so.6
	ld -pie -dynamic-linker /lib64/ld-linux-x86-64.so.2 --hash-style=both -z noexecstack -z noseparate-code \
		--build-id=none -s -o $@ $^

$(BUILD)/linked/%.o: linked/stubs.S linked.mk
	@mkdir -p $(@D)
	$(CC) $(ASFLAGS) -DPAGE=$(if $(findstring twin,$*),$(TWIN_PAGE),$(VSYSCALL_PAGE)) -c -o $@ $<
$(BUILD)/vfix-%.so: $(BUILD)/linked/%.o
	ld -shared -soname libc-6.so -init started --hash-style=both -z noexecstack -z noseparate-code --build-id -o $@ $<

$(BUILD)/libvfix-twin.so: $(BUILD)/libvfix.so
	$(MAKE) --no-print-directory preload BUILD=$(BUILD)/twin PAGE=$(TWIN_PAGE)
	cp $(BUILD)/twin/libvfix.so $@
