#!/usr/bin/env bats
# The command line: help, options, exit statuses, stdout and stderr, the form of errors, terminals, signals.
# Dollars in single quotes are perl's and the disassembler's.
# shellcheck disable=SC2016
load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	# Without a daemon or credentials.
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock DOCKER_CONFIG=$BATS_TEST_TMPDIR/docker
	affected=$build/fixtures/static-2m
	unknown=$build/fixtures/finding-escape
	verbs='scan list patch rebuild verify convert layer hotfix run install uninstall runtime nri cache index doctor diagnose bench version completion'
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

@test "help: of each verb, the same three ways, at most 80 columns" {
	for verb in $verbs; do
		run_vfix "$verb" --help
		text=$output
		expect stderr "$stderr" ''
		expect 'widest line' "$(awk 'length > 80' <<<"$text")" ''
		for heading in Usage: Examples: Options: 'Exit status:'; do
			expect_match "help of $verb" "$text" "$heading"
		done
		run_vfix help "$verb"
		expect "vfix help $verb" "$output" "$text"
		run_vfix "$verb" -h
		expect "vfix $verb -h" "$output" "$text"
	done
}

@test "help: each option of each verb is explained" {
	declare -A options=(
		[scan]='authfile color debug exit-code explain fail-fast first fix format from-file ignore-file insecure jobs max-requests max-temp metrics output platform progress quiet report root shard stall-timeout state strict timeout'
		[list]='authfile color debug format gone insecure jobs match max-requests newer-than platform progress quiet stall-timeout'
		[patch]='color debug dry-run explain format in-place jobs max-temp one-file-system output progress quiet since'
		[rebuild]='authfile color debug dest-template dry-run fail-fast fallback first fix format from-file insecure jobs max-requests max-temp metrics output platform progress provenance push quiet report shard stall-timeout state tag tag-suffix timeout update-dpkg'
		[verify]='against authfile color debug explain format insecure jobs max-temp platform progress provenance quiet stall-timeout statement'
		[convert]='authfile cmd color debug entrypoint env format insecure max-temp output platform progress quiet stall-timeout user workdir'
		[layer]='color debug format insecure output program progress quiet'
		[hotfix]='apply authfile color debug fix for format insecure jobs list max-temp output platform progress prune quiet stall-timeout'
		[run]='explain way'
		[install]='check color config default-runtime dry-run fail-closed fallback force format hook name opt-in prefix program root runtime'
		[uninstall]='color dry-run force format root'
		[runtime]=''
		[nri]='annotation audit hook-dir image label namespace socket vfix-config'
		[cache]='cache-dir color format size'
		[index]='cache-dir engine watch'
		[doctor]='all check color format quick'
		[diagnose]='authfile color debug format insecure platform progress quiet root stall-timeout'
		[bench]='authfile color debug format insecure platform plot progress quiet redis rounds stall-timeout'
		[version]='color format'
		[completion]=''
	)
	for verb in $verbs; do
		run_vfix "$verb" --help
		found=$(sed -n 's/^  \(-., \|    \)--\([a-z-]*\) .*[a-z].*/\2/p' <<<"$output" | grep -v '^help$' | sort | xargs)
		expect "options of $verb" "$found" "${options[$verb]}"
	done
}

@test "scan: vfix does not refer to the page itself" {
	run_vfix 0 scan "$VFIX"
	run_vfix 0 scan "$tree/bin/vfix-runtime"
}

@test "help: lists the verbs and the topics, and each topic has a text" {
	run_vfix help
	for word in $verbs sources lists exit-status environment how-it-works fallback json json-schema; do
		expect_match 'vfix help' "$output" "  $word "
	done
	for topic in sources lists exit-status environment how-it-works fallback json; do
		run_vfix help $topic
		[ "${#lines[@]}" -gt 10 ] || fail "vfix help $topic: ${#lines[@]} lines"
	done
	run_vfix help json-schema
	jq -e '."$defs"' <<<"$output" >/dev/null
}

@test "usage: status 2, nothing on stdout, and the help to run" {
	while read -r arguments; do
		# shellcheck disable=SC2086 # words
		run_vfix 2 $arguments
		expect_error
	done <<-'END'
		nonsense
		--nonsense
		help nonsense
		scan
		scan --nonsense x
		scan --format yaml x
		scan --progress loud x
		scan --platform linux/arm64 x
		scan --platform armv7 x
		scan -j -1 x
		patch x
		patch -i
		patch -i -o y x
		patch -o - x
		rebuild
		rebuild x y
		rebuild --push --dry-run x
		rebuild --push -o docker://y x
		rebuild -t y --tag-suffix z x
		rebuild -t y -o docker://z x
		rebuild -t y -o sif:z.sif x
		rebuild --provenance z.json -o sif:z.sif x
		rebuild --tag-suffix z -o oci:y x
		rebuild --tag-suffix= x
		rebuild -o - x
		verify
		verify --against= x
		version x
		completion
		completion csh
	END
	run_vfix 2 patch --nonsense
	expect_match hint "$stderr" "hint: run 'vfix patch --help'"
	run_vfix 2 scna
	expect_match hint "$stderr" "did you mean 'vfix scan'"
	run_vfix 2
	expect stdout "$output" ''
}

@test "error: status 1, nothing on stdout, an error and a hint" {
	echo 'no ELF' >text
	for format in table json; do
		run_vfix 1 scan --format $format ./nothing
		expect_error
		expect_match error "$stderr" './nothing'
		run_vfix 1 patch -o copy --format $format ./nothing
		expect_error
		run_vfix 1 rebuild --format $format oci:nothing -o oci:out:x
		expect_error
		run_vfix 1 rebuild --format $format docker-daemon:nothing:0 -o oci:out:x
		expect_error
		run_vfix 1 verify --format $format ./nothing
		expect_error
		[ ! -e out ] && [ ! -e copy ] || fail 'something was written'
	done
}

@test "scan: status 3 with call sites, 0 without, and the table is on stdout" {
	run_vfix 3 scan "$affected"
	expect_match stdout "$output" 'gettimeofday'
	expect_match stdout "$output" 'call sites can be patched'
	expect_match verdict "$output" "  vfix patch -i $affected"
	run_vfix scan "$(command -v bash)"
	expect_match stdout "$output" 'no call site of the vsyscall page'
}

@test "scan: one source that is not there does not hide the others" {
	run_vfix 1 scan ./nothing "$affected"
	expect_match stdout "$output" 'call sites can be patched'
	expect 'lines of error' "$(grep -c '^vfix: error: .' <<<"$stderr")" 1
}

@test "scan: JSON is valid with findings, and empty after an error" {
	run_vfix 3 scan --format json --explain "$affected" "$unknown"
	jq -e '.schema == 1 and .verb == "scan" and (.results | length) == 2' <<<"$output" >/dev/null
	jq -e '[.results[0].files[].sites[] | select(.form != "left") | .change.before | length > 0] | all and length > 0' <<<"$output" >/dev/null
	jq -e '[.results[0].files[].sites[] | select(.form == "entry") | .listing.after | map(.changed) | any] | all and length > 0' <<<"$output" >/dev/null
	jq -e '.results[1].summary.left_over > 0' <<<"$output" >/dev/null
}

@test "scan --explain: the bytes of both sides are those of the file, before and after" {
	run_vfix 3 scan --explain "$affected"
	expect_match listing "$output" 'before'
	expect_match listing "$output" 'mov $0xffffffffff600400,%rax'
	expect_match listing "$output" '<keep_time>'
	# objdump's output for the first old line: vaddr, bytes and mnemonic.
	line=$(grep -m 1 '48 c7 c0 00 04 60 ff mov' <<<"$output" | awk '{ print $1 }')
	objdump -d --start-address="0x$line" --stop-address="$((16#$line + 7))" "$affected" | grep -q '48 c7 c0 00 04 60 ff.*mov .*\$0xffffffffff600400,%rax'
}

@test "scan --explain: fits the terminal, side by side from 80 columns" {
	on_terminal 80 "'$VFIX' scan --explain '$affected'"
	expect_match listing "$output" 'before  '
	plain=$(sed 's/\x1b\[[0-9;?]*[A-Za-z]//g; s/\r//g' <<<"$output")
	# Titles contain the path of the file.
	expect 'lines wider than 80' "$(grep -v "$affected" <<<"$plain" | awk 'length > 80')" ''
	on_terminal 50 "'$VFIX' scan --explain '$affected'"
	expect_match listing "$output" '  before:'
	expect_match listing "$output" '  after:'
}

@test "terminal: colours and bars on one, none in a file, none with NO_COLOR or TERM=dumb" {
	escape=$'\x1b['
	on_terminal 100 "'$VFIX' scan '$affected' 2>/dev/null"
	expect_match 'the terminal' "$output" "${escape}32m"
	on_terminal 100 "NO_COLOR=1 '$VFIX' scan '$affected' 2>/dev/null"
	expect 'escape sequences with NO_COLOR' "$(grep -cF "$escape" <<<"$output" || true)" 0
	expect_match 'the terminal' "$output" 'call sites can be patched'
	on_terminal 100 "TERM=dumb '$VFIX' scan '$affected'"
	expect 'escape sequences with TERM=dumb' "$(grep -cF "$escape" <<<"$output" || true)" 0
	run_vfix 3 scan "$affected"
	expect 'escape sequences in a pipe' "$(grep -cF "$escape" <<<"$output$stderr" || true)" 0
	expect_match stderr "$stderr" 'vfix: read '
	# The libraries of a program are not listed while they are read.
	run_vfix 0 scan /bin/ls
	expect stderr "$stderr" 'vfix: read /bin/ls'
	on_terminal 100 "'$VFIX' scan '$affected' >/dev/null"
	expect_match bars "$output" 'done'
	# Without the height of the terminal, no bars are shown.
	on_terminal 100 "stty rows 0; '$VFIX' scan '$affected' >/dev/null"
	expect_match lines "$output" 'vfix: read '
}

@test "progress: quiet leaves findings, errors and hints, plain is lines" {
	# The table has the findings and the command to run; stderr has only the progress.
	run_vfix 3 scan --progress quiet "$affected"
	expect 'lines of stderr' "${#stderr_lines[@]}" 0
	expect_match stdout "$output" 'AFFECTED: '
	run_vfix 3 scan --progress plain "$affected"
	expect 'lines of stderr' "${#stderr_lines[@]}" 1
	run_vfix 3 scan --progress quiet --format json "$affected"
	expect 'lines of stderr' "${#stderr_lines[@]}" 2
	run_vfix 1 scan --progress quiet ./nothing
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
	run_vfix 3 patch -i "${unknown##*/}"
	expect_match stdout "$output" 'unknown'
	expect_match stderr "$stderr" 'vfix: hint: '
}

@test "verify: status 3 where call sites are left, or something else differs" {
	run_vfix 3 verify "$affected"
	expect_match stderr "$stderr" 'call sites left'
	"$VFIX" patch -o copy "$affected" >/dev/null 2>&1
	run_vfix verify copy --against "$affected"
	expect_match stdout "$output" '1 changed file'
	printf x | dd of=copy bs=1 seek=$(($(stat -c %s copy) - 1)) conv=notrunc status=none
	run_vfix 3 verify copy --against "$affected"
	expect_match stdout "$output" 'difference'
	run_vfix 3 verify --format json copy --against "$affected"
	jq -e '.problems | length > 0' <<<"$output" >/dev/null
}

@test "rebuild: stdout is one reference, the table is on stderr, JSON carries both" {
	requires legacy_image
	layout=oci:$small_image/oci:legacy
	run_vfix rebuild "$layout" -o oci:out:x
	expect stdout "$output" oci:out:x
	expect_match stderr "$stderr" 'call sites patched'
	run_vfix rebuild --progress quiet "$layout" -o oci:out:y
	expect stdout "$output" oci:out:y
	expect stderr "$stderr" ''
	run_vfix rebuild --format json "$layout" -o oci:out:z
	jq -e '.reference == "oci:out:z" and .unchanged == false and .layer_size > 0 and (.digest | startswith("sha256:"))' <<<"$output" >/dev/null
	run_vfix rebuild oci:out:x -o oci:again:x
	expect "stdout, the copy" "$output" oci:again:x
	expect_match stderr "$stderr" 'nothing to do'
	run_vfix rebuild --dry-run "$layout" -o oci:dry:x
	expect stdout "$output" "$layout"
	[ ! -e dry ] || fail 'a dry run wrote something'
}

@test "rebuild: without a daemon, the message says which -o to type" {
	requires legacy_image
	run_vfix 1 rebuild "oci:$small_image/oci:legacy"
	expect_error
	expect_match hint "$stderr" '-o '
}

@test "stdout: a reader that goes away ends vfix quietly, a full disk with an error" {
	closed=(perl -e 'pipe(R, W); close(R); open(STDOUT, ">&", \*W); exec(@ARGV)')
	run --separate-stderr "${closed[@]}" "$VFIX" help json
	expect status "$status" 141
	expect stderr "$stderr" ''
	run --separate-stderr "${closed[@]}" "$VFIX" scan --progress quiet "$affected"
	expect status "$status" 141
	expect stderr "$stderr" ''
	run --separate-stderr sh -c "'$VFIX' help json >/dev/full"
	expect status "$status" 1
	expect_match stderr "$stderr" 'vfix: error: stdout: '
	# A closed stderr does not stop the work.
	run --separate-stderr perl -e 'pipe(R, W); close(R); open(STDERR, ">&", \*W); exec(@ARGV)' "$VFIX" scan "$affected"
	expect status "$status" 3
	expect_match stdout "$output" 'call sites can be patched'
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

@test "version: the text and JSON agree, and the shim has a size" {
	run_vfix version
	version=$(sed -n '1s/^vfix //p' <<<"$output")
	[ -n "$version" ] || fail 'no version'
	run_vfix version --format json
	expect version "$(jq -r .version <<<"$output")" "$version"
	jq -e '.shim_size > 0 and (.go | startswith("go"))' <<<"$output" >/dev/null
}

@test "completion: bash takes the script, and it completes verbs and words" {
	run_vfix completion bash
	bash -n <<<"$output"
	run_vfix __complete ''
	for verb in $verbs; do
		expect_match words "$output" "$verb"
	done
	run_vfix __complete scan --format ''
	expect_match words "$output" 'json'
}

@test "patch: -x leaves out what is mounted, --since what an earlier run has seen" {
	requires root own_root
	local dir=$BATS_TEST_TMPDIR/root
	mkdir -p "$dir/mounted"
	cp "$affected" "$dir/here"
	# shellcheck disable=SC2016 # the inner shell expands it
	unshare --mount sh -ec '
		mount -t tmpfs tmpfs "$2/mounted" && cp "$3" "$2/mounted/there"
		"$1" patch -i -x --progress quiet "$2" >/dev/null
		cmp "$3" "$2/mounted/there"
		if cmp "$3" "$2/here"; then exit 1; fi
		"$1" patch -i --progress quiet "$2" >/dev/null # the control
		if cmp "$3" "$2/mounted/there"; then exit 1; fi
	' sh "$VFIX" "$dir" "$affected"
	run_vfix patch -i --since stamp "$dir"
	expect_match stdout "$output" '1 ELF file'
	touch -d '1 day' stamp && touch -d '1 hour ago' stamp
	cp -p "$affected" "$dir/again" # its mtime is old, its ctime is not
	run_vfix patch -i --since stamp "$dir"
	expect_match stdout "$output" 'call sites patched'
	[ stamp -nt "$dir/again" ] || fail "the stamp was not set"
}
