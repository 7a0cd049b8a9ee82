# containerd: ctr, spoken to in docker's words. It has no builder, and no restart of its own.
# shellcheck shell=bash disable=SC2034,SC2154
name=containerd
builders=()
own_users=(--uidmap 0:200000:65536 --gidmap 0:200000:65536)

engine_version() { ctr version | sed -n '/^Server/,$s/.*Version: *\([0-9.]*\).*/\1/p'; }

start_engine() {
	start_service engine containerd
	await_service engine ctr version
}

apply_config() {
	stop_services
	start_engine
}

other_users() { :; }

# vfix_binary: what its CRI plugin executes for pods of the RuntimeClass vfix.
vfix_binary() {
	containerd config dump | sed -n "/containerd.runtimes.vfix.options\]/,/^\$/s/ *BinaryName = '\(.*\)'/\1/p" | grep .
}

# options OPTION... IMAGE COMMAND...: sets $options, $image_name and $command to what ctr takes.
options() {
	local binary
	# Control groups of version 2 may lack controllers, and ctr's runc needs one for shares.
	options=(--cpu-shares 0) entrypoint=() detached=
	while [[ $1 == -* ]]; do
		case $1 in
		--detach) detached=yes && shift ;;
		--name) container=$2 && shift 2 ;;
		--network) shift 2 ;;
		--runtime)
			# A runtime that is not configured is an error, as with other engines.
			binary=$(vfix_binary) || return
			options+=(--runc-binary "$binary")
			shift 2
			;;
		--entrypoint) entrypoint=("$2") && shift 2 ;;
		--user | --uidmap | --gidmap) options+=("$1" "$2") && shift 2 ;;
		*) options+=("$1") && shift ;;
		esac
	done
	image_name=$1
	shift
	command=("${entrypoint[@]}" "$@")
}

# ctr waits for ever for a task that does not end.
ctr() { timeout 60 /usr/bin/ctr "$@"; }

# engine VERB...: as of docker.
engine() {
	local verb=$1 container=c$RANDOM$RANDOM options entrypoint image_name command detached
	shift
	case $verb in
	load) ctr images import "${*: -1}" ;;
	save) ctr images export --local "$2" "$3" ;; # else the file may be cut short (2.1)
	images) ctr images ls -q ;;
	ps) ctr containers ls -q ;;
	run)
		options "$@" || return
		ctr run ${detached:+--detach} "${options[@]}" "$image_name" "$container" "${command[@]}"
		;;
	exec) ctr task exec --exec-id "x$RANDOM" "$@" ;;
	restart)
		ctr task kill --signal KILL "${*: -1}"
		poll ctr task delete "${*: -1}"
		ctr task start --detach "${*: -1}"
		;;
	rm)
		for container in "${@:2}"; do
			ctr task delete --force "$container" || true
			ctr containers delete "$container"
		done
		;;
	esac
}

# rebuilt IMAGE RESULT: vfix has no source or destination in containerd; archives are.
rebuilt() {
	engine save --output "$BATS_FILE_TMPDIR/saved.tar" "$1"
	run_vfix rebuild "$BATS_FILE_TMPDIR/saved.tar" -o "oci-archive:$BATS_FILE_TMPDIR/fixed.tar:$2"
	engine load "$BATS_FILE_TMPDIR/fixed.tar"
}
