package install

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/xattrs"
)

// acl is the list in system.posix_acl_access of user::rw-, user:1000:r--, group::---, mask::r--, other::---
// (linux/posix_acl_xattr.h). Its mask is what the mode shows as the group's rights: a file that loses
// the list and keeps its mode is the group's to read.
const acl = "02000000" + "01000600ffffffff" + "02000400e8030000" + "04000000ffffffff" + "10000400ffffffff" + "20000000ffffffff"

func attributes(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names, err := xattrs.List(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, n := range names {
		v, err := xattrs.Get(int(f.Fd()), n)
		if err != nil {
			t.Fatal(err)
		}
		all[n] = hex.EncodeToString(v)
	}
	return all
}

// A configuration file keeps its ACL and its user attributes, except marks, while vfix's part is in it, and has
// them when that is taken out; one without an ACL gets none from its directory.
func TestAttributes(t *testing.T) {
	list, err := hex.DecodeString(acl)
	if err != nil {
		t.Fatal(err)
	}
	for name, inherited := range map[string]bool{"of the file": false, "of the directory": true} {
		root := machine(t, machines[Docker].files)
		file := filepath.Join(root, machines[Docker].file)
		if inherited {
			if err := unix.Setxattr(filepath.Dir(file), "system.posix_acl_default", list, 0); err != nil {
				t.Skip("no ACLs here: ", err)
			}
		} else {
			if err := unix.Setxattr(file, "system.posix_acl_access", list, 0); err != nil {
				t.Skip("no ACLs here: ", err)
			}
			if err := unix.Setxattr(file, "user.note", []byte("n"), 0); err != nil {
				t.Skip("no user attributes here: ", err)
			}
		}
		want := attributes(t, file)
		// A mark ties the file to what it was.
		if err := unix.Setxattr(file, "user.overlay.origin", []byte("x"), 0); err != nil {
			t.Skip("no user attributes here: ", err)
		}
		before := withoutTimes(snapshot(t, root))
		expect := func(when string) {
			t.Helper()
			got := attributes(t, file)
			if len(got) != len(want) || got["system.posix_acl_access"] != want["system.posix_acl_access"] || got["user.note"] != want["user.note"] {
				t.Errorf("%s, %s: got %v, want %v", name, when, got, want)
			}
		}
		r, err := Install(options(t, Docker, root))
		must(t, r, err)
		expect("installed")
		r, err = Uninstall(options(t, Docker, root))
		must(t, r, err)
		expect("uninstalled")
		if got := withoutTimes(snapshot(t, root)); got != before {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, before)
		}
	}
}
