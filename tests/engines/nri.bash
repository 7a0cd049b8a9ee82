# nri: containerd with its CRI service.
# shellcheck shell=bash disable=SC2034,SC2154
engine=containerd
program=containerd
endpoint=unix:///run/containerd/containerd.sock
runtimes=(runc)
load pods

engine_version() { ctr version | sed -n '/^Server/,$s/.*Version: *\([0-9.]*\).*/\1/p'; }

configure_engine() { configure_pods "$pause"; }

# import ARCHIVE NAME: the image of a docker archive that has this name.
import() { ctr -n k8s.io images import "$1"; }
