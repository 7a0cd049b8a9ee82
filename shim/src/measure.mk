# vfix-measure: an ordinary static program on musl, which vfix doctor and vfix bench start. musl-gcc has no headers of
# the kernel.
KERNEL_HEADERS = -idirafter /usr/include -idirafter /usr/include/x86_64-linux-gnu
MEASURE_SOURCES = $(sort $(wildcard measure/*.c)) vdso.c symbols.c
MEASURE_FLAGS   = -std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -I. $(KERNEL_HEADERS) -static -no-pie -fno-pie -s \
                  -fno-asynchronous-unwind-tables -fno-unwind-tables -ffunction-sections -Wl,--gc-sections \
                  -Wl,-z,noexecstack -Wl,-z,norelro -Wl,-z,noseparate-code -Wl,--build-id=none
MEASURE_MOST    = 65536	# bytes: every vfix embeds it

$(BUILD)/vfix-measure: $(MEASURE_SOURCES) $(wildcard measure/*.h) vdso.h symbols.h measure.mk trace/prove | $(BUILD)
	$(CC) $(MEASURE_FLAGS) -o $@.tmp $(MEASURE_SOURCES)
	trace/prove $@.tmp $(MEASURE_MOST)
	mv $@.tmp $@
