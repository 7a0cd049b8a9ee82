# vfix-trace: an ordinary static program on musl. TRACE_TWIN is the same program for a page that no kernel maps, so
# that calls of it fault natively, for tests and the benchmark.
TRACE_SOURCES = $(sort $(wildcard trace/*.c)) fallback.c vdso.c symbols.c standin.S
TRACE_FLAGS   = -std=gnu11 -O2 -fno-strict-aliasing -Wall -Wextra -Werror -D_GNU_SOURCE -I. -static -no-pie -fno-pie -s \
                -fno-asynchronous-unwind-tables -fno-unwind-tables -ffunction-sections -Wl,--gc-sections \
                -Wl,-z,noexecstack -Wl,-z,norelro -Wl,-z,noseparate-code -Wl,--build-id=none
TRACE_NEEDS   = $(TRACE_SOURCES) trace/trace.h fallback.h vdso.h symbols.h trace.mk
TRACE_TWIN    = ../../tests/build/vfix-trace-twin
TRACE_MOST    = 69632	# bytes: an entrypoint's wrapper must be small

$(BUILD)/vfix-trace: $(TRACE_NEEDS) trace/prove
	$(CC) $(TRACE_FLAGS) -o $@.tmp $(TRACE_SOURCES)
	trace/prove $@.tmp $(TRACE_MOST)
	mv $@.tmp $@

$(TRACE_TWIN): $(TRACE_NEEDS)
	mkdir -p $(@D)
	$(CC) $(TRACE_FLAGS) -DVFIX_PAGE=0xffffffffff5ff000ul -o $@ $(TRACE_SOURCES)
