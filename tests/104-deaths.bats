#!/usr/bin/env bats
# bats file_tags=machine,alone
# Crashes of old images for reasons other than the vsyscall page, made real: the output of scan, doctor and
# diagnose is compared with the programs' behavior.
# Variables come from helpers.bash; the dollars are for the shell of a container.
# shellcheck disable=SC2016,SC2154
load helpers

setup_file() {
	load helpers
	start_legacy_docker
}

teardown_file() {
	load helpers
	stop_services
}

has_sha_extensions() { grep -qw sha_ni /proc/cpuinfo || { echo 'this processor has no SHA extensions' && return 1; }; }

# fetch_libcrypto WHEEL HASH: $libcrypto, from an old wheel on PyPI.
fetch_libcrypto() {
	local dir=$build/libcrypto/$1
	mkdir -p "${dir%/*}"
	exec 8>"$dir.lock"
	flock 8
	if [ ! -e "$dir" ]; then
		rm -rf "$dir.new"
		mkdir "$dir.new"
		get_venv
		echo "$1 --hash=sha256:$2" >"$dir.new/list"
		pip_install --no-deps --only-binary :all: --require-hashes --platform manylinux1_x86_64 \
			--implementation cp --abi cp36m --python-version 36 -t "$dir.new/out" -r "$dir.new/list"
		mv "$dir.new/out" "$dir"
		rm -rf "$dir.new"
	fi
	exec 8>&-
	libcrypto=$(echo "$dir"/psycopg2/.libs/libcrypto-*)
}

# ciphertexts [VARIABLE=VALUE]: the first block of $libcrypto's results for one text with AES-CBC and a hash in one
# pass, by hash and length: always the same.
ciphertexts() {
	env LD_LIBRARY_PATH="${libcrypto%/*}" "$@" /usr/bin/python3 - "$libcrypto" <<-'END'
		import ctypes, sys
		crypto = ctypes.CDLL(sys.argv[1])
		crypto.EVP_CIPHER_CTX_new.restype = ctypes.c_void_p
		SET_MAC_KEY, TLS1_AAD, ENCRYPT = 0x17, 0x16, 1
		for name in "EVP_aes_128_cbc_hmac_sha1", "EVP_aes_128_cbc_hmac_sha256":
		    for size in 200, 16384:
		        cipher = getattr(crypto, name)
		        cipher.restype = ctypes.c_void_p
		        at = ctypes.c_void_p(crypto.EVP_CIPHER_CTX_new())
		        crypto.EVP_CipherInit_ex(at, ctypes.c_void_p(cipher()), None, b"k" * 16, b"i" * 16, ENCRYPT)
		        crypto.EVP_CIPHER_CTX_ctrl(at, SET_MAC_KEY, 20, b"m" * 20)
		        header = bytes(8) + bytes([23, 3, 1]) + size.to_bytes(2, "big")
		        size += crypto.EVP_CIPHER_CTX_ctrl(at, TLS1_AAD, len(header), header)
		        out = ctypes.create_string_buffer(size)
		        if crypto.EVP_Cipher(at, out, b"t" * size, size) != 1:
		            sys.exit("not encrypted")
		        print(out.raw[:16].hex())
	END
}

# image NAME DIR CHANGE: an image with a directory's files.
image() { tar -c -C "$2" . | docker import --change "$3" - "$1"; }

@test "deaths: OpenSSL 1.0.2k ignores the IV on an Intel processor with SHA extensions, and the variable of scan helps" {
	requires sha_extensions
	local right advice
	right=$(printf 't%.0s' {1..16} | openssl enc -aes-128-cbc -nopad -K "$(printf '6b%.0s' {1..16})" -iv "$(printf '69%.0s' {1..16})" | od -An -tx1 | tr -d ' \n')
	fetch_libcrypto psycopg2==2.7.1 4cae3856e9b41a4861ad32fd8a4aabc7669a0b828776bb3ce0ca29333dabf40c
	run_vfix scan --format json "$libcrypto"
	expect hazard "$(jq -r '.results[].hazards[] | .kind + " " + .version' <<<"$output")" 'openssl-sha 1.0.2k'
	advice=$(jq -r '.results[].hazards[].do' <<<"$output" | grep -o 'OPENSSL_ia32cap=[^ ]*')
	# 1.0.2k looks for SHA extensions only on Intel's processors (openssl/openssl#2849), and joins AES with SHA-256
	# only there. The variable enables those of other processors; the first two texts are SHA-1's.
	run -0 ciphertexts OPENSSL_ia32cap=:0x20000000
	[[ $(head -n 2 <<<"$output") != *"$right"* ]] || fail "1.0.2k encrypts rightly with SHA extensions: $output"
	run -0 ciphertexts
	if grep -qw GenuineIntel /proc/cpuinfo; then
		[[ $output != *"$right"* ]] || fail "1.0.2k encrypts rightly: $output"
	else
		expect "on a processor that is not Intel's" "$(sort -u <<<"$output")" "$right"
	fi
	run -0 ciphertexts "$advice"
	expect "with $advice" "$(sort -u <<<"$output")" "$right"
	# The control.
	fetch_libcrypto psycopg2-binary==2.7.5 a6d32c37f714c3f34158f3fa659f3a8f2658d5f53c4297d45579b9677cc4d852
	run_vfix scan --format json "$libcrypto"
	expect 'hazards of 1.0.2o' "$(jq -c '.results[].hazards' <<<"$output")" '[]'
	run -0 ciphertexts
	expect '1.0.2o' "$(sort -u <<<"$output")" "$right"
}

@test "deaths: a container that is killed for its memory, with a JVM in it" {
	requires docker oracle legacy_image
	local dir=$BATS_TEST_TMPDIR/jvm
	mkdir -p "$dir/lib"
	cp /bin/busybox "$dir/busybox"
	{ cat /bin/busybox && printf '\0OpenJDK 64-Bit Server VM (17.0.9+9) for linux-amd64 JRE (17.0.9+9), built on\0/proc/cgroups\0/memory.limit_in_bytes\0'; } >"$dir/lib/libjvm.so"
	image jvm:1 "$dir" 'CMD ["/busybox", "sh", "-c", "x=a; while :; do x=$x$x; done"]'
	run_vfix 0 scan jvm:1
	expect_match hazard "$output" 'lib/libjvm.so: JDK 17.0.9+9'
	run_vfix 3 scan --strict jvm:1
	echo docker-daemon:jvm:1 >"$BATS_TEST_TMPDIR/list"
	run_vfix 3 scan --strict --from-file "$BATS_TEST_TMPDIR/list"
	expect_match 'of a list' "$stderr" 'hazards: 1 of 1 image'
	run_vfix 0 scan --from-file "$BATS_TEST_TMPDIR/list"
	# The control: killed by another process, not by the kernel.
	docker run --detach --name sent --network none --entrypoint /busybox jvm:1 sleep 600
	docker kill sent
	docker wait sent
	run_vfix 0 diagnose sent
	[[ $output != *'more memory'* ]] || fail "$output"
	run docker run --name greedy --network none --memory 32m jvm:1
	expect status "$status" 137
	run_vfix 0 diagnose greedy
	expect_match verdict "$(tr -s ' \n' ' ' <<<"$output")" 'not the vsyscall page: the kernel killed it because it used more memory than its limit'
	docker rm greedy sent
}

@test "deaths: programs that cannot be started, by what the engine says of them" {
	requires docker oracle legacy_image fallback
	local dir=$BATS_TEST_TMPDIR/broken name message
	mkdir "$dir"
	cp "$build/fallback/i386" "$dir/no-loader"
	echo 'echo hello' >"$dir/no-interpreter"
	chmod 755 "$dir"/*
	printf '\177ELF\2\1\1%64s' '' >"$dir/other-machine"
	printf '\2\0\267\0' | dd of="$dir/other-machine" bs=1 seek=16 conv=notrunc status=none
	chmod 755 "$dir/other-machine"
	image broken:1 "$dir" 'ENV a=b'
	for name in no-loader no-interpreter other-machine; do
		message=$(docker run --rm --network none broken:1 "/$name" 2>&1 | grep -iE 'exec format|no such file') || true
		[ -n "$message" ] || fail "$name: the engine says nothing"
		run_vfix 0 diagnose "$message"
		expect_match "$message" "$(tr -s ' \n' ' ' <<<"$output")" 'not the vsyscall page: the '
	done
	docker create --name none --network none broken:1 /nothing
	run docker start none
	[ "$status" -ne 0 ] || fail 'a program that is not there starts'
	run_vfix 0 diagnose none
	expect_match 'a container' "$(tr -s ' \n' ' ' <<<"$output")" 'the program, or the loader that it names, does not exist'
	docker rm none
}
