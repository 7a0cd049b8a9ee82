// vfix's lines in a configuration file, between two comments that mark them.

package install

import (
	"bytes"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
)

// beginLine is the beginning of the comment before a runtime's lines, endLine the comment after them.
func beginLine(name string) string { return "# vfix: begin " + name + ":" }
func endLine(name string) string   { return "# vfix: end " + name }

// addBlock appends the block of a runtime to a file.
func addBlock(data []byte, name, body string) []byte {
	eol := "\n"
	if bytes.Contains(data, []byte("\r\n")) {
		eol = "\r\n"
	}
	text := string(data)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += eol
	}
	if text != "" {
		text += eol
	}
	lines := beginLine(name) + " put here by 'vfix install'; 'vfix uninstall' takes it out\n" + strings.TrimRight(body, "\n") + "\n" + endLine(name) + "\n"
	return []byte(text + strings.ReplaceAll(lines, "\n", eol))
}

// takeBlock removes the block of a runtime from a file, and says whether there was one.
func takeBlock(file string, data []byte, name string) ([]byte, bool, error) {
	begin, end := beginLine(name), endLine(name)
	var out strings.Builder
	inside, found := false, false
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSpace(line)
		switch {
		case !inside && strings.HasPrefix(text, begin):
			inside, found = true, true
		case inside && text == end:
			inside = false
		case !inside:
			out.WriteString(line)
		}
	}
	if inside {
		return nil, true, hinterr.With(hinterr.Errorf(hinterr.ErrDamaged, "%s: the line %q is missing", file, end),
			"put it back after the lines that 'vfix install' wrote, or remove these lines by hand")
	}
	if !found {
		return data, false, nil
	}
	// If the block was at the end of the file, the empty line before it came with it.
	rest := out.String()
	for _, eol := range []string{"\r\n", "\n"} {
		if strings.HasSuffix(rest, eol+eol) {
			rest = strings.TrimSuffix(rest, eol)
			break
		}
	}
	return []byte(rest), true, nil
}
