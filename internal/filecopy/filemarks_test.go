package filecopy

import "testing"

func TestIs(t *testing.T) {
	for name, want := range map[string]bool{
		"security.ima": true, "security.evm": true,
		"trusted.overlay.metacopy": true, "user.overlay.metacopy": true, "trusted.overlay.origin": true, "user.overlay.origin": true,
		"user.fsverity.sig": true, "user.verity.digest": true, "trusted.vfix.copy": true,
		"security.capability": false, "security.selinux": false, "system.posix_acl_access": false,
		"user.overlay": false, "user.note": false, "": false,
	} {
		if got := IsMark(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}
