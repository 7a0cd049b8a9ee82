# docker-containerd: docker with its containerd image store, the default of docker 29.
# shellcheck shell=bash disable=SC2034
dockerd_features='"containerd-snapshotter": true'
. "$(dirname "${BASH_SOURCE[0]}")/docker.bash"
