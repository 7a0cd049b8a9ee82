package textutil

import "testing"

func TestText(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"redis", "redis", true}, {"redis", "redis2", false}, {"redis", "a/redis", false}, {"*", "", true}, {"*", "a\nb", true},
		{"a*b*c", "a-b-b-c", true}, {"a*a", "a", false}, {"ab*ba", "aba", false}, {"a**", "a", true}, {"[a]", "a", false}, {"a.", "ab", false},
		{"a?", "ab", true}, {"a?", "a", false}, {"a?", "abc", false}, {"team-?", "team-1", true}, {`a\`, `a\`, true},
		{"a\xff", "a", false}, {"a\xff*", "a\xff\xfeb", true},
	} {
		if got := Pattern(tc.pattern).MatchString(tc.text); got != tc.want {
			t.Errorf("%q, %q: got %v, want %v", tc.pattern, tc.text, got, tc.want)
		}
	}
}

func TestImage(t *testing.T) {
	const name = "docker.io/library/redis:2.8.22"
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{name, name, true}, {"library/redis:2.8.22", name, true}, {"library/redis:2.?.*", name, true}, {"*/redis:*", name, true},
		{"*redis*", name, true}, {"redis:*", name, false}, {"library/redis", name, false}, {"docker.io/*", name, true}, {"quay.io/*", name, false},
		{name, "docker://" + name, true}, {"library/redis:2.8.22", "docker://" + name, true}, {"redis:*", "redis:2.8.22", true},
		{"redis:*", "docker-daemon:redis:2.8.22", true},
	} {
		if got := ImagePattern(tc.pattern).MatchString(tc.text); got != tc.want {
			t.Errorf("%q, %q: got %v, want %v", tc.pattern, tc.text, got, tc.want)
		}
	}
}
