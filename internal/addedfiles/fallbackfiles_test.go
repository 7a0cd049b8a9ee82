package addedfiles

import "testing"

func TestWithLine(t *testing.T) {
	for _, c := range []struct {
		content string
		wide    bool
		want    string
	}{
		{"", false, PlainLine + "\n"},
		{"", true, PlatformLine + "\n"},
		{"/a.so", false, "/a.so\n" + PlainLine + "\n"},
		{"/a.so:" + PlainLine + " /b.so\n", false, "/a.so:" + PlainLine + " /b.so\n"},
		{"# " + PlainLine + "\n", false, "# " + PlainLine + "\n" + PlainLine + "\n"},
		{PlainLine + ".old\n", false, PlainLine + ".old\n" + PlainLine + "\n"},
		{"/a.so\n" + PlainLine + "\n", true, "/a.so\n" + PlatformLine + "\n"},
	} {
		got := string(WithPreloadLine([]byte(c.content), c.wide))
		if got != c.want {
			t.Errorf("%q: got %q, want %q", c.content, got, c.want)
		}
		if again := string(WithPreloadLine([]byte(got), c.wide)); again != got {
			t.Errorf("%q: twice gives %q", c.content, again)
		}
	}
}
