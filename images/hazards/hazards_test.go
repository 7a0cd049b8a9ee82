package hazards

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func find(t *testing.T, name, content string) *Hazard {
	t.Helper()
	h, err := Find(name, strings.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The text that programs of each version have in them, with its surroundings.
const (
	jre      = "\x00OpenJDK 64-Bit Server VM (%) for linux-amd64 JRE (%), built on Oct 17 2023 00:00:00\x00"
	v1Files  = "\x00/proc/self/cgroup\x00%s/memory.limit_in_bytes\x00"
	v2Files  = v1Files + "/proc/cgroups\x00/memory.max\x00"
	newFiles = v2Files + "/sys/fs/cgroup/cgroup.controllers\x00"
	shaCode  = "\x0f\x3a\xcc\xc1\x03"
)

func jvm(version, files string) string { return strings.ReplaceAll(jre, "%", version) + files }

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name, content string
		kind          Kind
		version       string
	}{
		{"usr/lib/jvm/17/lib/server/libjvm.so", jvm("17.0.9+9", v2Files), JavaCgroups, "17.0.9+9"},
		{"libjvm.so", jvm("1.8.0_372-b07", v2Files), JavaCgroups, "1.8.0_372-b07"},
		{"libjvm.so", jvm("1.8.0_191-b12", v1Files), JavaCgroupV1, "1.8.0_191-b12"},
		{"libjvm.so", jvm("1.6.0_45-b06", ""), JavaUnaware, "1.6.0_45-b06"},
		{"libjvm.so", jvm("25+36", newFiles), "", ""},
		{"libjvm.so", jvm("17", v2Files) + jvm("18", v2Files), JavaCgroups, "17"},
		{"libjvm.so", jvm("", v2Files) + jvm("18", v2Files), JavaCgroups, "18"},
		{"libjvm.so", "another virtual machine\x00/proc/cgroups\x00", "", ""},
		{"libother.so", jvm("17.0.9+9", v2Files), "", ""},
		{"lib/x86_64-linux-gnu/libcrypto.so.1.0.0", "OpenSSL 1.0.2g  1 Mar 2016\x00" + shaCode, OpenSSLSHA, "1.0.2g"},
		{"libcrypto.so.10", "part of OpenSSL 1.0.2k-fips  26 Jan 2017\x00" + shaCode, OpenSSLSHA, "1.0.2k-fips"},
		{"libcrypto-41d5a7a6.so.1.0.2", "OpenSSL 1.0.2 22 Jan 2015\x00" + shaCode, OpenSSLSHA, "1.0.2"},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2-beta1 24 Feb 2014\x00" + shaCode, OpenSSLSHA, "1.0.2-beta1"},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2a 1 Mar\x00" + shaCode, OpenSSLSHA, "1.0.2a"},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2k 1 Mar\x00OpenSSL 1.0.2a 1 Mar\x00" + shaCode, OpenSSLSHA, "1.0.2k"},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2u 1 Mar\x00OpenSSL 1.0.2a 1 Mar\x00" + shaCode, OpenSSLSHA, "1.0.2a"},
		{"libcrypto.so.1.0.2", shaCode + "OpenSSL 1.0.2 ", OpenSSLSHA, "1.0.2"},
		{"libcrypto.so.1.0.2", shaCode + "OpenSSL 1.0.2", "", ""},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2l  25 May 2017\x00" + shaCode, "", ""},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2X  25 May 2017\x00" + shaCode, "", ""},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2ab  25 May 2017\x00" + shaCode, "", ""},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2-fips  22 Jan 2015\x00" + shaCode, "", ""},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2u  20 Dec 2019\x00" + shaCode, "", ""},
		{"libcrypto.so.1.0.0", "OpenSSL 1.0.2g  1 Mar 2016\x00", "", ""},
		{"libcrypto.so.1.0.0", "OpenSSL 1.0.1t  3 May 2016\x00" + shaCode, "", ""},
		{"libcrypto.so.3", "OpenSSL 3.0.19 27 Jan 2026\x00" + shaCode, "", ""},
		{"usr/lib/systemd/systemd", "\x00systemd 219 running in %ssystem mode. (%s)\x00", InitCgroupV2, "219"},
		{"lib/systemd/systemd", "\x00systemd 229 running in %ssystem mode. (%s)\x00", InitCgroupV2, "229"},
		{"lib/systemd/systemd", "systemd 1 running in %ssystem mode. (%s)\x00", InitCgroupV2, "1"},
		{"lib/systemd/systemd", "systemd 219 running in %s\x00systemd 232 running in %s", InitCgroupV2, "219"},
		{"lib/systemd/systemd", "systemd x running in %s\x00systemd 219 running in %s", InitCgroupV2, "219"},
		{"lib/systemd/systemd", "\x00systemd 230 running in %ssystem mode. (%s)\x00", "", ""},
		{"lib/systemd/systemd", "\x00systemd 232 running in %ssystem mode. (%s)\x00", "", ""},
		{"lib/systemd/systemd", "\x00systemd 252.39-1~deb12u2 running in %ssystem mode (%s)\x00", "", ""},
		{"lib/systemd/systemd", "\x00not running in any mode\x00", "", ""},
	} {
		h := find(t, c.name, c.content)
		switch {
		case c.kind == "" && h != nil:
			t.Errorf("%s, %q: got %+v, want none", c.name, c.content, h)
		case c.kind != "" && (h == nil || h.Kind != c.kind || h.Version != c.version):
			t.Errorf("%s, %q: got %+v, want %s %s", c.name, c.content, h, c.kind, c.version)
		case h != nil && (h.Title() == "" || h.Means() == "" || h.Do() == ""):
			t.Errorf("%s: no words for it", h.Kind)
		}
	}
}

// TestBorders: a word is found once wherever a piece of the file ends, with what is around it.
func TestBorders(t *testing.T) {
	const word = "OpenSSL 1.0.2"
	const step = piece - 2*context - len(word)
	for _, size := range []int{piece - 1, piece, piece + 1, step + piece - 1, step + piece, step + piece + 1} {
		b := bytes.Repeat([]byte{'.'}, size)
		for _, end := range []int{step, piece, step + piece} {
			// Where a word, or what is around it, begins or ends at the border.
			for _, near := range []int{-2*context - len(word), -context - len(word), -context, -len(word), 0, context} {
				for at := max(0, end+near-2); at <= min(size-len(word), end+near+2); at++ {
					copy(b[at:], word)
					n := 0
					err := (&text{bytes.NewReader(b), int64(size)}).each(word, func(before, after []byte) bool {
						n++
						if string(before) != strings.Repeat(".", min(at, context)) || string(after) != strings.Repeat(".", min(size-at-len(word), context)) {
							t.Errorf("%d of %d bytes: got %q and %q around it", at, size, before, after)
						}
						return true
					})
					if err != nil || n != 1 {
						t.Fatalf("%d of %d bytes: found %d times, %v", at, size, n, err)
					}
					copy(b[at:], strings.Repeat(".", len(word)))
				}
			}
		}
	}
	// Words that are close to each other, and one that is enough.
	many := &text{strings.NewReader(word + "1" + word + "2" + word + "3"), 3 * int64(len(word)+1)}
	for most, want := range map[int]string{1: "1", 2: "12", 9: "123"} {
		got := ""
		if err := many.each(word, func(_, after []byte) bool {
			got += string(after[0])
			return len(got) < most
		}); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	// At the file's start and end there is less around it.
	if h := find(t, "libcrypto.so.10", "OpenSSL 1.0.2k\x00"+strings.Repeat(".", piece)+shaCode); h == nil || h.Version != "1.0.2k" {
		t.Errorf("got %+v", h)
	}
}

// failing reads n times, and then no more.
type failing struct {
	*strings.Reader
	n int
}

var errBroken = errors.New("broken")

func (f *failing) ReadAt(b []byte, at int64) (int, error) {
	if f.n--; f.n < 0 {
		return 0, errBroken
	}
	return f.Reader.ReadAt(b, at)
}

// Whichever read of a file fails is an error; a file that ends early is not.
func TestUnreadable(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		reads   int
	}{
		"libjvm.so": {jvm("17", newFiles), 4}, "libcrypto.so.10": {"OpenSSL 1.0.2k \x00" + shaCode, 2}, "systemd": {"systemd 219 running in ", 1},
	} {
		for n := range c.reads + 1 {
			_, err := Find(name, &failing{strings.NewReader(c.content), n}, int64(len(c.content))+10)
			if want := n < c.reads; errors.Is(err, errBroken) != want || !want && err != nil {
				t.Errorf("%s, %d reads: got %v", name, n, err)
			}
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add("libjvm.so", jvm("17.0.9+9", v2Files))
	f.Add("libcrypto.so", "OpenSSL 1.0.2k  26 Jan 2017\x00"+shaCode)
	f.Add("systemd", "systemd 219 running in system mode")
	f.Fuzz(func(t *testing.T, name, content string) {
		if h := find(t, name, content); h != nil && h.Version == "" {
			t.Errorf("%+v", h)
		}
	})
}
