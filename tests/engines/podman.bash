# podman: with crun, its own default, and the socket that vfix reads and writes by.
# shellcheck shell=bash disable=SC2034,SC2154
name=podman
builders=(podman buildah)
own_users=(--uidmap 0:200000:65536 --gidmap 0:200000:65536)

engine_version() { podman --version | sed 's/.* //'; }

start_engine() {
	mkdir -p /etc/containers/containers.conf.d /run/podman
	[ -e /etc/containers/containers.conf.d/10-engines.conf ] || configure
	start_service engine podman system service --time 0 unix:///run/podman/podman.sock
	await_service engine podman --url unix:///run/podman/podman.sock version
}

# configure: control groups of version 2 may lack controllers, and this machine may allow fewer open
# files than podman asks for.
configure() {
	printf '[containers]\npids_limit = 0\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n' \
		>/etc/containers/containers.conf.d/10-engines.conf
}

apply_config() {
	stop_services
	start_engine
}

other_users() { :; }

engine() { podman "$@"; }

as_user() { runuser -u user -- env HOME=/home/user XDG_RUNTIME_DIR="/run/user/$(id -u user)" "$@"; }
start_rootless() { :; }

# rebuilt IMAGE RESULT
rebuilt() {
	run_vfix rebuild "$1"
	expect reference "$output" "$2"
}

build_with() {
	case $1 in
	podman) podman build --network none --pull=never "${@:2}" ;;
	buildah) buildah build --network none --pull=never "${@:2}" ;;
	esac
}
