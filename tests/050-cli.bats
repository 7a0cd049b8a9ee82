#!/usr/bin/env bats
# The command line: exit statuses, stdout and stderr, the form of errors, terminals, signals. Options and help are
# tested in Go.
# Dollars in single quotes are perl's and the disassembler's.
# shellcheck disable=SC2016
load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	# Without a daemon or credentials.
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock DOCKER_CONFIG=$BATS_TEST_TMPDIR/docker
	affected=$build/fixtures/libc-static-2m
	unknown=$build/fixtures/finding-escape
}

teardown() { stop_services; }

# expect_error: the last run_vfix left stdout empty and wrote to stderr, after messages, one error and one hint,
# one line each.
expect_error() {
	expect stdout "$output" ''
	expect 'lines of error' "$(grep -c '^vfix: error: .' <<<"$stderr")" 1
	expect 'lines of hint' "$(grep -c '^vfix: hint: .' <<<"$stderr")" 1
	expect 'other lines' "$(grep -cv '^vfix: ' <<<"$stderr" || true)" 0
}

# on_terminal COLUMNS COMMAND: runs it with a terminal for all three streams, and leaves its output in $output.
on_terminal() {
	requires terminal
	run env -u NO_COLOR TERM=xterm script -qec "stty cols $1 rows 24; $2" /dev/null
	echo "$output"
}

# stalling_server: a server on a free port of loopback that accepts connections and sends nothing. $server is its
# address.
stalling_server() {
	start_service stalling perl -MIO::Socket::INET -e '
		$| = 1;
		my $s = IO::Socket::INET->new(Listen => 9, LocalAddr => "127.0.0.1") or die;
		print "listens on 127.0.0.1:", $s->sockport, "\n";
		my @open;
		while (my $c = $s->accept) { push @open, $c; print "connected\n" }'
	await_service stalling grep -q 'listens on' "$BATS_FILE_TMPDIR/stalling.log"
	server=$(sed -n 's/^listens on //p' "$BATS_FILE_TMPDIR/stalling.log")
}

# hanging_vfix ARGUMENT...: starts vfix, with the signals of a terminal's shell, and waits until it has connected
# to the stalling server. Its pid is in $pid.
hanging_vfix() {
	env --default-signal=INT,TERM,HUP "$VFIX" "$@" >stdout 2>stderr 3>&- &
	pid=$!
	poll grep -q connected "$BATS_FILE_TMPDIR/stalling.log" || { cat stderr && false; }
}

@test "scan: vfix does not refer to the page itself" {
	run_vfix 0 scan "$VFIX"
	run_vfix 0 scan "$tree/bin/vfix-runtime"
}

@test "scan --explain: the bytes are those of the file" {
	run_vfix 3 scan --explain "$affected"
	expect_match listing "$output" 'mov $0xffffffffff600400,%rax'
	expect_match listing "$output" '<keep_time>'
	# objdump's output for the first old line: vaddr, bytes and mnemonic.
	line=$(grep -m 1 -- '^  - .*48 c7 c0 00 04 60 ff  mov' <<<"$output" | awk '{ print $2 }')
	objdump -d --start-address="0x$line" --stop-address="$((16#$line + 7))" "$affected" | grep -q '48 c7 c0 00 04 60 ff.*mov .*\$0xffffffffff600400,%rax'
}

@test "terminal: colors and progress on one, none in a file, none with NO_COLOR or TERM=dumb" {
	escape=$'\x1b['
	on_terminal 100 "'$VFIX' scan '$affected' 2>/dev/null"
	expect_match 'the terminal' "$output" "${escape}33m"
	on_terminal 100 "NO_COLOR=1 '$VFIX' scan '$affected' 2>/dev/null"
	expect 'escape sequences with NO_COLOR' "$(grep -cF "$escape" <<<"$output" || true)" 0
	expect_match 'the terminal' "$output" 'AFFECTED'
	on_terminal 100 "TERM=dumb '$VFIX' scan '$affected' 2>/dev/null"
	expect 'escape sequences with TERM=dumb' "$(grep -cF "$escape" <<<"$output" || true)" 0
	run_vfix 3 scan "$affected"
	expect 'escape sequences in a pipe' "$(grep -cF "$escape" <<<"$output$stderr" || true)" 0
	run_vfix 3 scan -v "$affected"
	expect_match stderr "$stderr" 'vfix: debug: read '
	on_terminal 50 "'$VFIX' scan /bin/ls 2>/dev/null"
	expect 'lines wider than 50' "$(sed 's/\x1b\[[0-9;?]*[A-Za-z]//g; s/\r//g' <<<"$output" | awk 'length > 50 && !/^ *vfix/')" ''
}

@test "quiet: -q leaves findings, errors and hints" {
	run_vfix 3 scan -q "$affected"
	expect 'lines of stderr' "${#stderr_lines[@]}" 0
	expect_match stdout "$output" 'AFFECTED: '
	run_vfix 3 scan -v "$affected"
	expect 'lines of stderr' "${#stderr_lines[@]}" 2
	run_vfix 3 scan -q --format json "$affected"
	expect 'lines of stderr' "${#stderr_lines[@]}" 2
	run_vfix 1 scan -q ./nothing
	expect_error
}

@test "patch: --dry-run writes nothing, -o a copy, -i the file, and status 3 where sites stay" {
	cp "$affected" program
	cp -p program original
	run_vfix patch --dry-run program
	expect_match stdout "$output" 'would be patched'
	cmp program original
	run_vfix patch --dry-run -i program
	cmp program original
	run_vfix patch -o copy program
	expect_match stdout "$output" 'call sites patched'
	cmp program original
	run_vfix scan copy
	run_vfix patch -i --explain program
	expect_match stdout "$output" '<keep_time>'
	cmp program copy
	run_vfix patch -i program
	cmp program copy
	run_vfix verify program --against original
	cp "$unknown" .
	run_vfix 4 patch -i "${unknown##*/}"
	expect_match stdout "$output" 'unknown'
	expect_match stderr "$stderr" 'vfix: hint: '
}

@test "stdout: a reader that goes away ends vfix quietly, a full disk with an error" {
	closed=(perl -e 'pipe(R, W); close(R); open(STDOUT, ">&", \*W); exec(@ARGV)')
	run --separate-stderr "${closed[@]}" "$VFIX" help json
	expect status "$status" 141
	expect stderr "$stderr" ''
	run --separate-stderr "${closed[@]}" "$VFIX" scan -q "$affected"
	expect status "$status" 141
	expect stderr "$stderr" ''
	run --separate-stderr sh -c "'$VFIX' help json >/dev/full"
	expect status "$status" 1
	expect_match stderr "$stderr" 'vfix: error: stdout: '
	# A closed stderr does not stop the work.
	run --separate-stderr perl -e 'pipe(R, W); close(R); open(STDERR, ">&", \*W); exec(@ARGV)' "$VFIX" scan "$affected"
	expect status "$status" 3
	expect_match stdout "$output" 'AFFECTED: '
}

@test "signals: one of each kind ends vfix with 128 and its number, with an error and a hint" {
	declare -A statuses=([INT]=130 [TERM]=143 [HUP]=129)
	for signal in INT TERM HUP; do
		stalling_server
		hanging_vfix scan --insecure "docker://$server/hangs:1"
		kill -$signal $pid
		wait $pid && status=0 || status=$?
		stop_services && : >"$BATS_FILE_TMPDIR/services"
		expect "status after SIG$signal" "$status" "${statuses[$signal]}"
		expect stdout "$(cat stdout)" ''
		expect_match stderr "$(cat stderr)" $'\nvfix: hint: '
	done
}

@test "credentials: are in no message" {
	stalling_server
	auth=$(printf 'somebody:hunter2-secret' | base64 -w 0)
	mkdir -p "$DOCKER_CONFIG"
	# No service listens on port 1.
	printf '{"auths": {"127.0.0.1:1": {"auth": "%s"}}}\n' "$auth" >"$DOCKER_CONFIG/config.json"
	run_vfix 1 scan --insecure docker://127.0.0.1:1/x:1
	expect_error
	for secret in hunter2 "$auth"; do
		[[ $stderr != *"$secret"* ]] || fail "a secret is in: $stderr"
	done
	run_vfix 1 scan docker://somebody:hunter2-secret@127.0.0.1:1/x:1
	[[ $stderr != *hunter2* ]] || fail "a secret is in: $stderr"
	HTTPS_PROXY=http://somebody:hunter2-secret@127.0.0.1:1 run_vfix 1 scan docker://registry.invalid/x:1
	[[ $stderr != *hunter2* ]] || fail "a secret is in: $stderr"
}

@test "names: control characters of a file name do not reach the terminal" {
	name=$'evil\x1b[2J\nname'
	cp "$affected" "$name"
	run_vfix 3 scan "$BATS_TEST_TMPDIR"
	expect 'escape characters' "$(grep -c $'\x1b' <<<"$output$stderr" || true)" 0
	grep -qF 'evil\x1b[2J\nname' <<<"$output" || fail "the name is not in: $output"
	run_vfix 3 scan --format json "$BATS_TEST_TMPDIR"
	expect 'path in JSON' "$(jq -r '.results[0].files[].path' <<<"$output")" "$name"
}

@test "patch: -x leaves out what is mounted, --since what an earlier run has seen" {
	requires root own_root
	local dir=$BATS_TEST_TMPDIR/root
	mkdir -p "$dir/mounted"
	cp "$affected" "$dir/here"
	# shellcheck disable=SC2016 # the inner shell expands it
	unshare --mount sh -ec '
		mount -t tmpfs tmpfs "$2/mounted" && cp "$3" "$2/mounted/there"
		"$1" patch -i -x -q "$2" >/dev/null
		cmp "$3" "$2/mounted/there"
		if cmp "$3" "$2/here"; then exit 1; fi
		"$1" patch -i -q "$2" >/dev/null # the control
		if cmp "$3" "$2/mounted/there"; then exit 1; fi
	' sh "$VFIX" "$dir" "$affected"
	run_vfix patch -i --since stamp "$dir"
	touch -d '1 day' stamp && touch -d '1 hour ago' stamp
	cp -p "$affected" "$dir/again" # its mtime is old, its ctime is not
	run_vfix patch -i --since stamp "$dir"
	expect_match stdout "$output" 'call sites patched'
	[ stamp -nt "$dir/again" ] || fail "the stamp was not set"
}
