# docker: dockerd, its client, the classic builder, buildx and compose. $dockerd_features may turn
# on what is off in this version.
# shellcheck shell=bash disable=SC2034,SC2154
name=docker
builders=(classic buildx)
own_users=() # the engine's, not an option

engine_version() { docker version --format '{{.Server.Version}}' | sed 's/+.*//'; }

start_engine() {
	if [ -n "${dockerd_features-}" ] && [ ! -e /etc/docker/daemon.json ]; then
		mkdir -p /etc/docker
		printf '{"features": {%s}}\n' "$dockerd_features" >/etc/docker/daemon.json
	fi
	dockerd_options=("$@")
	start_service engine dockerd --iptables=false --ip6tables=false --bridge=none "$@"
	await_service engine docker version
}

# apply_config: the systemctl command that vfix install prints.
apply_config() {
	stop_services
	start_engine "${dockerd_options[@]}"
}

# other_users: from here on an engine whose containers have users of their own.
other_users() {
	stop_services
	useradd remapped
	echo remapped:200000:65536 | tee /etc/subuid >/etc/subgid
	start_engine --userns-remap=remapped
}

engine() { docker "$@"; }

as_user() {
	local dir
	dir=/run/user/$(id -u user)
	runuser -u user -- env HOME=/home/user XDG_RUNTIME_DIR="$dir" DOCKER_HOST="unix://$dir/docker.sock" "$@"
}

# start_rootless: the user's own engine, by the script that Debian has for it.
start_rootless() {
	as_user mkdir -p /home/user/.config/docker
	printf '{"features": {%s}}\n' "${dockerd_features-}" >/home/user/.config/docker/daemon.json
	start_service rootless as_user bash /usr/share/docker.io/contrib/dockerd-rootless.sh --iptables=false --ip6tables=false --bridge=none
	await_service rootless as_user docker version
}

# rebuilt IMAGE RESULT
rebuilt() {
	run_vfix rebuild "$1"
	expect reference "$output" "$2"
}

build_with() {
	case $1 in
	classic) DOCKER_BUILDKIT=0 docker build --network none "${@:2}" ;;
	buildx) docker buildx build --network none --load "${@:2}" ;;
	esac
}
