# Shared by the checks of pods. The variables are of tests/helpers.bash.
# shellcheck shell=bash

# configure_pods PAUSE: containerd's configuration before vfix, for pods whose sandbox has the image PAUSE.
# A host may keep root from what it calls a low OOM score.
configure_pods() {
	mkdir -p /etc/containerd /etc/cni/net.d
	cat >/etc/containerd/config.toml <<-END
		version = 3

		[plugins.'io.containerd.cri.v1.images'.pinned_images]
		  sandbox = '$1'

		[plugins.'io.containerd.cri.v1.runtime']
		  restrict_oom_score_adj = true

		[plugins.'io.containerd.cri.v1.runtime'.cni]
		  bin_dirs = ['/usr/lib/cni']
		  conf_dir = '/etc/cni/net.d'
	END
}
