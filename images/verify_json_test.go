package images_test

import (
	"strings"
	"testing"

	"vfix.dev/vfix/images"
)

// The differences between two JSON objects, one sentence each.
func TestVerifyTexts(t *testing.T) {
	long := `"` + strings.Repeat("x", 298) + `"`
	for _, c := range []struct{ want, got, says string }{
		{`{"a":1,"b":[1,{"c":null}]}`, `{"b":[1,{"c":null}],"a":1}`, ""},
		{`{"a":1}`, `{"a":2}`, "t: a: got 2, want 1"},
		{`{"a":1}`, `{"a":1.0}`, "t: a: got 1.0, want 1"},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, "t: a: got 9007199254740992, want 9007199254740993"},
		{`{"a":1,"c":3}`, `{"b":2,"c":3}`, "t: a: missing, want 1\nt: b: got 2, want none"},
		{`{"a":{"b":{"c":1}}}`, `{"a":{"b":{"c":2}}}`, "t: a: b: c: got 2, want 1"},
		{`{"a":{"b":1}}`, `{"a":[1]}`, `t: a: got [1], want {"b":1}`},
		{`{"a":[1]}`, `{"a":{"b":1}}`, `t: a: got {"b":1}, want [1]`},
		{`{"a":null}`, `{"a":{}}`, "t: a: got {}, want null"},
		{`{"a":[]}`, `{"a":[{}]}`, "t: a: 0: got {}, want none"},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, "t: a: got [2,1], want [1,2]"},
		{`{"a":[{"b":1},{"b":2}]}`, `{"a":[{"b":1},{"b":3}]}`, "t: a: 1: b: got 3, want 2"},
		{`{"a":[{"path":"x","b":1},{"path":"y"}]}`, `{"a":[{"path":"y"},{"path":"x","b":2}]}`, "t: a: x: b: got 2, want 1"},
		{`{"a":[{"path":"x"},{"path":"y"}]}`, `{"a":[{"path":"y"},{"path":"x"}]}`, "t: a: another order"},
		{`{"a":[{"path":"x"},{"path":"x"}]}`, `{"a":[{"path":"x"}]}`, `t: a: got [{"path":"x"}], want [{"path":"x"},{"path":"x"}]`},
		{`{"a":[{"offset":16,"b":1},{"offset":17}]}`, `{"a":[{"offset":17},{"offset":16,"b":2}]}`, "t: a: offset 16: b: got 2, want 1"},
		{`{"a":[{"b":1},1]}`, `{"a":[{"b":2},1]}`, `t: a: got [{"b":2},1], want [{"b":1},1]`},
		{`{"a":` + long + `}`, `{}`, "t: a: missing, want " + long},
		{`{"a":"x` + long[1:] + `}`, `{}`, `t: a: missing, want "x` + long[1:299] + "…"},
		{`{"a":"` + strings.Repeat("é", 150) + `"}`, `{}`, `t: a: missing, want "` + strings.Repeat("é", 149) + "…"},
		{`{"mediaType":"application/vnd.oci.image.manifest.v1+json"}`, `{"mediaType":"application/vnd.docker.distribution.manifest.v2+json"}`, ""},
		{`{"a":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip"}]}`, `{"a":[{"mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip"}]}`, ""},
		{`{"annotations":{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip"}}`, `{"annotations":{"mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip"}}`,
			`t: annotations: mediaType: got "application/vnd.docker.image.rootfs.diff.tar.gzip", want "application/vnd.oci.image.layer.v1.tar+gzip"`},
		{`{"a":1}`, `{"a":1,"a":1}`, "t: a: there twice"},
		{`{"a":{"b":1},"c":1}`, `{"a":{"b":1,"b":1},"c":1}`, "t: b: there twice"},
		{`{"a":[1,{"b":1}],"c":1}`, `{"a":[1,{"b":1,"b":1}],"c":1}`, "t: b: there twice"},
		{`{"a":[{"b":1},{"b":1}]}`, `{"a":[{"b":1},{"b":1}]}`, ""},
		{`{"a":1,"x":1}`, `{"a":1,"x":2,"y":3}`, ""},
		{`[]`, `{}`, "an error"}, {`{}`, `[]`, "an error"}, {`{} {}`, `{}`, "an error"}, {`{}`, `{} {}`, "an error"},
	} {
		got, err := images.VerifyTexts(c.want, c.got, "x", "y")
		if says := strings.Join(got, "\n"); says != strings.TrimPrefix(c.says, "an error") || (err != nil) != (c.says == "an error") {
			t.Errorf("%s and %s: got %q, %v, want %q", c.want, c.got, says, err, c.says)
		}
	}
}
