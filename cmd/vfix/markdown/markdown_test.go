// The parts of Markdown that the pages use.

package markdown

import (
	"strings"
	"testing"
)

func TestPlainText(t *testing.T) {
	long := strings.Repeat("word ", 20)
	for _, tc := range []struct{ name, in, want string }{
		{"headings", "# A\n\ntext\n\n## B `c d`\n\nmore\n", "A\n\n  text\n\nB c d\n\n  more\n"},
		{"paragraph", long + "\nend\n", "  " + strings.TrimSpace(strings.Repeat("word ", 15)) + "\n  word word word word word end\n"},
		{"marks", "a **b** `c` `d e` [F](f.md) [g](../h) [i](#j) [`k`](k)\n", "  a b c 'd e' F ('vfix help f') g (h) i k\n"},
		{"list", "- one\n  two\n- three\n1. four\n", "  - one two\n  - three\n  1. four\n"},
		{"code", "a:\n\n```\n$ `x` | **y**\n\n  z\n```\n\nb\n", "  a:\n\n    $ `x` | **y**\n\n      z\n\n  b\n"},
		{"image", "a\n\n![b](c.svg)\n\nd\n", "  a\n\n  d\n"},
		{"table", "| a | b |\n|---|---|\n| `c d` | e \\| f |\n| gg | " + long + " |\n",
			"  A    B\n  c d  e | f\n  gg   " + strings.TrimSpace(strings.Repeat("word ", 14)) + "\n       word word word word word word\n"},
		{"wide table", "| a | b |\n|---|---|\n| " + strings.Repeat("ab ", 15) + " | " + long + " |\n",
			"  A                                       B\n" +
				"  ab ab ab ab ab ab ab ab ab ab ab ab ab  word word word word word word word\n" +
				"  ab ab                                   word word word word word word word\n" +
				"                                          word word word word word word\n"},
	} {
		if got := Plain(tc.in); got != tc.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
}

func TestSection(t *testing.T) {
	const page = "# P\n\nopening\n\n## A `b`, c\n\none\n\n### B\n\n```\n## in code\n```\n\n## Last\n\nend\n"
	for _, tc := range []struct{ anchor, want string }{
		{"a-b-c", "## A `b`, c\n\none\n\n### B\n\n```\n## in code\n```\n\n"},
		{"last", "## Last\n\nend\n"},
		{"b", ""},
		{"in-code", ""},
	} {
		if got, found := Section(page, tc.anchor); got != tc.want || found != (tc.want != "") {
			t.Errorf("%s: got %q, %v, want %q", tc.anchor, got, found, tc.want)
		}
	}
}
