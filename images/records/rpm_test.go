package records_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/records"
	"vfix.dev/vfix/tests/imagetest"
)

// A database of rpm that cannot be read is a warning if a file is patched.
func TestUnreadRPM(t *testing.T) {
	legacy, modern := imagetest.LegacyM("lib/a", "1"), imagetest.ModernM("lib/a")
	for name, c := range map[string]struct {
		members []imagetest.TestMember
		want    string
	}{
		"none":             {[]imagetest.TestMember{legacy}, ""},
		"of SUSE":          {[]imagetest.TestMember{legacy, imagetest.FileM("var/lib/rpm/Packages.db", []byte("x"))}, "whether rpm has digests of the patched files could not be found out: rpm's database: var/lib/rpm/Packages.db: an ndb database"},
		"damaged":          {[]imagetest.TestMember{legacy, imagetest.FileM("var/lib/rpm/Packages", []byte("x"))}, "could not be found out: rpm's database: var/lib/rpm/Packages: "},
		"a directory":      {[]imagetest.TestMember{legacy, imagetest.DirM("var/lib/rpm/Packages.db")}, ""},
		"nothing to patch": {[]imagetest.TestMember{modern, imagetest.FileM("var/lib/rpm/Packages.db", []byte("x"))}, ""},
	} {
		r, err := images.Rebuild(t.Context(), imagetest.StoreOCI(t, imagetest.Stack(t, c.members)), images.RebuildOptions{DryRun: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Join(r.Warnings, "; "); !strings.Contains(got, c.want) || (got == "") != (c.want == "") || len(r.Packages) > 0 {
			t.Errorf("%s: got %q, %+v", name, got, r.Packages)
		}
	}
}

// A database of more than 1 GiB is not read.
func TestLargeRPM(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	const most = 1 << 30
	name := dir + "/var/lib/rpm/Packages.db"
	for size, want := range map[int64]string{most: "an ndb database", most + 1: "1073741825 bytes, at most 1073741824 are read"} {
		if err := errors.Join(os.MkdirAll(dir+"/var/lib/rpm", 0o755), os.WriteFile(name, nil, 0o644), os.Truncate(name, size)); err != nil {
			t.Fatal(err)
		}
		s := imagetest.TestSession(t)
		sub := imagetest.Must[*contents.Subject](t)(s.OpenSubject(t.Context(), &media.Source{Path: dir}))
		_, err := records.RpmRecords(t.Context(), sub, sub.F.ToPatch())
		imagetest.WantErr(t, err, nil, "rpm's database: var/lib/rpm/Packages.db: ", want)
		if all, err := records.RpmRecords(t.Context(), sub, nil); size == most && (err != nil || all != nil) {
			t.Errorf("nothing to patch: got %v, %v", all, err)
		}
		sub.Close()
	}
}
